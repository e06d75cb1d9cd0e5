#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_logging_options(OptionTable& table) {
    OptionGroup group(table, "Logging", &Config::logging);
    group.serve("logging_strategy", &LoggingSettings::logging_strategy,
                "Events at which metrics are written.");
    group
        .serve("logging_steps", &LoggingSettings::logging_steps,
               "Steps between lines of metrics; below 1: a share of all steps.")
        .above(0)
        .at_most(1e15);
    group.serve("logging_first_step", &LoggingSettings::logging_first_step,
                "Write metrics of step 1 too.");
    group
        .serve("report_to", &LoggingSettings::report_to,
               "Further places for metrics: none, tensorboard, wandb, mlflow, trackio or all. They "
               "are written into output_dir, in the trackers' own formats and without a network.")
        .keeps_words({"none", "all", "tensorboard", "wandb", "mlflow", "trackio"},
                     "no files of this tracker are written; metrics are in "
                     "output_dir/metrics.jsonl, and in further formats with report_to tensorboard, "
                     "wandb, mlflow or trackio");
    group.serve("logging_dir", &LoggingSettings::logging_dir,
                "Folder for TensorBoard's files; default: tensorboard in output_dir.");
    group.serve("project", &LoggingSettings::project,
                "Project or experiment of the trackers; where none is given, WANDB_PROJECT, "
                "MLFLOW_EXPERIMENT_NAME or TRACKIO_PROJECT may name it.");
    group.serve("disable_tqdm", &LoggingSettings::disable_tqdm,
                "No live progress bar on a terminal.");

    group.serve("profile_steps", &LoggingSettings::profile_steps,
                "Steps to record for chrome://tracing and Perfetto, as in 10-12: every rank writes "
                "profile-<attempt>-rank<r>.json into output_dir.");

    group.serve("document_log", &LoggingSettings::document_log,
                "Steps whose documents rank 0 logs in output_dir/documents.jsonl, each with its "
                "loss and its share of the gradient, for trainer inspect RUN --step N: off, spikes "
                "(steps whose loss or gradient stands out) or all.");

    group.serve("on_log", &LoggingSettings::on_log,
                "Command that gets each line of metrics as JSON on its standard input. It runs "
                "beside training.");
    group.serve("on_save", &LoggingSettings::on_save,
                "Command that gets the line of each checkpoint that is durable.");
    group.serve("on_evaluate", &LoggingSettings::on_evaluate,
                "Command that gets the line of each evaluation.");
    group.serve("on_end", &LoggingSettings::on_end,
                "Command that runs when the run is complete, or stops early with a checkpoint.");
    group
        .serve("hook_timeout_s", &LoggingSettings::hook_timeout_s,
               "Seconds that a command of on_log, on_save, on_evaluate or on_end may take; then it "
               "is ended.")
        .above(0)
        .at_most(300);

    const std::string always = "metrics.jsonl holds every number of every logged step";
    group.accept_all({{"logging_nan_inf_filter", Shape::boolean},
                      {"include_num_input_tokens_seen", Shape::word},
                      {"include_tokens_per_second", Shape::boolean},
                      {"skip_memory_metrics", Shape::boolean}},
                     always);
    const std::string one_voice = "rank 0 speaks; the others only when they fail";
    group.accept_all({{"log_level", Shape::word},
                      {"log_level_replica", Shape::word},
                      {"log_on_each_node", Shape::boolean}},
                     one_voice);
    group.accept_all({{"trackio_space_id", Shape::word},
                      {"trackio_bucket_id", Shape::word},
                      {"trackio_static_space_id", Shape::word}},
                     "nothing is sent to a network; report_to trackio writes Trackio's database");
}

}  // namespace ringshard::config
