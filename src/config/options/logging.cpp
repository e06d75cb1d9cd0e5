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
               "Further places for metrics: none or tensorboard.")
        .but_not({"wandb", "trackio", "mlflow", "comet_ml", "comet", "clearml", "swanlab",
                  "neptune", "dagshub", "dvclive", "flyte", "codecarbon", "azure_ml"},
                 "online trackers are not served; metrics are in output_dir/metrics.jsonl, and in "
                 "TensorBoard "
                 "files with report_to tensorboard");
    group.serve("disable_tqdm", &LoggingSettings::disable_tqdm,
                "No live progress bar on a terminal.");

    group.serve("profile_steps", &LoggingSettings::profile_steps,
                "Steps to record for chrome://tracing and Perfetto, as in 10-12: every rank writes "
                "profile-<attempt>-rank<r>.json into output_dir.");

    const std::string always = "metrics.jsonl holds every number of every logged step";
    group.accept_all({{"logging_nan_inf_filter", Shape::boolean},
                      {"include_num_input_tokens_seen", Shape::word},
                      {"include_tokens_per_second", Shape::boolean},
                      {"skip_memory_metrics", Shape::boolean},
                      {"logging_dir", Shape::word}},
                     always);
    const std::string one_voice = "rank 0 speaks; the others only when they fail";
    group.accept_all({{"log_level", Shape::word},
                      {"log_level_replica", Shape::word},
                      {"log_on_each_node", Shape::boolean}},
                     one_voice);
    group.accept("project", Shape::word, "huggingface", "it concerns online trackers");
    const std::string trackio =
        "online trackers are not served; metrics are in output_dir/metrics.jsonl";
    for (const auto* name : {"trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"})
        group.refuse(name, Shape::word, "null", trackio);
}

}  // namespace ringshard::config
