#include "validate.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "check_rope.hpp"
#include "enum_names.hpp"
#include "ringshard/config/env_setting.hpp"
#include "ringshard/config/evaluation_sets.hpp"
#include "ringshard/config/loss_scale.hpp"
#include "ringshard/config/metric_names.hpp"
#include "ringshard/config/optimizer_settings.hpp"
#include "ringshard/config/schedule_settings.hpp"
#include "rule_report.hpp"

namespace ringshard::config {

namespace {

class Checker {
public:
    explicit Checker(RuleReport& report) : report_(report), settings_(report.settings()) {}

    void check_packing() {
        const DataSettings& data = settings_.values.data;
        if (data.packing && !data.max_length)
            complain(
                {"packing", "max_length"},
                "packing needs max_length, the length of a packed row: a whole number above 0; or "
                "packing false");
        if (data.eval_packing.value_or(false) && !data.max_length && !data.skip_prepare_dataset)
            complain(
                {"eval_packing", "max_length"},
                "eval_packing needs max_length, the length of a packed row: a whole number above "
                "0; or eval_packing false");
        const bool cuts_rows = settings_.values.training.method == Method::sft;
        if (data.padding_free && !data.packing && data.max_length && cuts_rows)
            complain({"padding_free", "max_length"},
                     "padding_free without packing needs max_length null, since rows are not cut");
        if (data.pad_to_multiple_of != "auto" && !data.pad_to_multiple_of.empty()) {
            int64_t multiple = 0;
            if (read_value(data.pad_to_multiple_of, multiple) || multiple < 1)
                complain({"pad_to_multiple_of"}, "must be auto, null or a whole number above 0");
        }
    }

    void check_split() {
        const auto& size = settings_.values.data.test_split_size;
        if (size && *size >= 1 && *size != std::floor(*size))
            complain({"test_split_size"},
                     "must be a share of the data below 1, or a whole number of rows");
    }

    void check_learning() {
        const DataSettings& data = settings_.values.data;
        if (!data.roles_to_train.empty() && data.assistant_only_loss)
            complain({"roles_to_train", "assistant_only_loss"},
                     "both say whose messages are learned: leave one of them out");
        const std::vector<std::string>& marks = data.mask_reasoning;
        const bool is_switch =
            marks.size() == 1 && (marks[0] == "true" || marks[0] == "false" || marks[0] == "empty");
        const bool is_pair = marks.size() == 2 && !marks[0].empty() && !marks[1].empty();
        if (!marks.empty() && !is_switch && !is_pair)
            complain({"mask_reasoning"},
                     "must be true, false, empty, or two marks: how reasoning begins and how it "
                     "ends, as in "
                     "[\"<think>\", \"</think>\"]");
    }

    // ms-swift's bases say which messages are learned, as roles_to_train and
    // train_on_last_turn_only do.
    void settle_loss_scale() {
        DataSettings& data = settings_.values.data;
        if (data.loss_scale.empty()) return;
        const LossScaleWords words = read_loss_scale(data.loss_scale);
        if (!words.wrong.empty())
            return complain(
                {"loss_scale"},
                format_text("{} is no rule; default, last_round or all may come first, then "
                            "ignore_empty_think, ignore_think_prefix, hermes, react, qwen or "
                            "alpha_umi, joined with +; messages have weights of their own under "
                            "the key weight",
                            words.wrong));
        if (words.base == "all") {
            if (data.assistant_only_loss || data.train_on_last_turn_only)
                complain({"loss_scale", data.assistant_only_loss ? "assistant_only_loss"
                                                                 : "train_on_last_turn_only"},
                         "contradict each other; leave one of them out");
            return;
        }
        const Origin origin = settings_.origin_of("loss_scale");
        if (data.roles_to_train.empty() && !data.assistant_only_loss) {
            data.roles_to_train = {"assistant"};
            settings_.given["roles_to_train"] = {write_value(data.roles_to_train), origin};
        }
        if (words.base != "last_round" || data.train_on_last_turn_only) return;
        data.train_on_last_turn_only = true;
        settings_.given["train_on_last_turn_only"] = {"true", origin};
    }

    void check_agent_template() {
        const std::string& form = settings_.values.data.agent_template;
        if (!form.empty() && form != "hermes" && form != "react_en")
            complain({"agent_template"},
                     "must be hermes or react_en; without it the chat template writes tools");
    }

    void check_schedule() {
        const auto schedule = read_schedule_settings(settings_.values.training);
        if (!schedule)
            complain({"lr_scheduler_type", "lr_scheduler_kwargs"}, schedule.failure().message);
    }

    void check_optimizer() {
        const TrainingSettings& training = settings_.values.training;
        if (const auto arguments = read_optim_args(training, training.optim); !arguments)
            complain({"optim", "optim_args"}, arguments.failure().message);
        const auto rules = read_lr_groups(training);
        if (!rules) return complain({"lr_groups"}, rules.failure().message);
        const auto is_muon = [](Optimizer optimizer) { return optimizer == Optimizer::muon; };
        if (const std::string by = setting_with(is_muon, rules.value());
            !by.empty() && training.optimizer_state_dtype == NumberType::bf16)
            complain({by, "optimizer_state_dtype"},
                     "Muon averages gradients in fp32; set optimizer_state_dtype fp32");
        const auto is_adafactor = [](Optimizer optimizer) {
            return optimizer == Optimizer::adafactor;
        };
        if (const std::string by = setting_with(is_adafactor, rules.value());
            !by.empty() && training.optimizer_state_dtype == NumberType::bf16)
            complain({by, "optimizer_state_dtype"},
                     "Adafactor keeps a number for each row and column in fp32; set "
                     "optimizer_state_dtype fp32");
        if (const std::string by = setting_with(is_schedule_free, rules.value()); !by.empty())
            check_schedule_free(by);
    }

    // The setting that names such an optimizer; empty: none does.
    std::string setting_with(bool (*wanted)(Optimizer),
                             const std::vector<UpdateRule>& rules) const {
        if (wanted(settings_.values.training.optim)) return "optim";
        const bool is_in_rules = std::ranges::any_of(
            rules, [&](const UpdateRule& rule) { return rule.optim && wanted(*rule.optim); });
        return is_in_rules ? "lr_groups" : "";
    }

    void check_schedule_free(const std::string& by) {
        const TrainingSettings& training = settings_.values.training;
        if (training.lr_scheduler_type != Schedule::constant)
            complain({by, "lr_scheduler_type"},
                     "a schedule-free optimizer averages the steps of a constant learning rate, "
                     "which it raises itself in warmup_steps; set lr_scheduler_type constant");
        if (training.warmup_steps != std::floor(training.warmup_steps))
            complain({by, "warmup_steps"},
                     "a schedule-free optimizer takes whole steps of warm-up; give a number of "
                     "steps");
        if (training.optimizer_state_dtype == NumberType::bf16)
            complain({by, "optimizer_state_dtype"},
                     "a schedule-free optimizer averages in fp32; set optimizer_state_dtype fp32");
    }

    void check_env() {
        const auto variables = read_env(settings_.values.run.env);
        if (!variables) complain({"env"}, variables.failure().message);
    }

    void check_model() {
        const std::string& type = settings_.values.model.dtype;
        if (type != "float32" && type != "bfloat16" && type != "auto")
            complain({"dtype"}, "must be float32, bfloat16 or auto");
        const ModelSettings& model = settings_.values.model;
        const std::string wrong_rope = wrong_rope_parameters(model.rope_parameters);
        if (!wrong_rope.empty()) complain({"rope_parameters"}, wrong_rope);
        if (!model.chat_template.empty() && !model.chat_template_path.empty())
            complain({"chat_template", "chat_template_path"}, "name two templates; leave one out");
        if (!model.chat_template.empty() && model.chat_template.find('{') == std::string::npos)
            complain({"chat_template"},
                     "is no Jinja template; chat_template_path names a file or a folder");
    }

    void check_trackers() {
        const LoggingSettings& logging = settings_.values.logging;
        if (!logging.profile_steps.empty() && !logging.steps_to_profile())
            complain({"profile_steps"}, "must be the first and the last step, as in 10-12");
    }

    // As in transformers.
    void check_intervals() {
        const Config& config = settings_.values;
        const auto check = [this](const char* name, double steps) {
            if (steps > 1 && steps != std::floor(steps))
                complain({name},
                         "must be a whole number if it is above 1; below 1 it is a share of all "
                         "steps");
        };
        if (config.logging.logging_strategy == Interval::steps)
            check("logging_steps", config.logging.logging_steps);
        if (config.evaluation.eval_strategy == Interval::steps && config.evaluation.eval_steps)
            check("eval_steps", *config.evaluation.eval_steps);
        if (config.checkpoint.save_strategy == SaveStrategy::steps)
            check("save_steps", config.checkpoint.save_steps);
    }

    void check_checkpoints() {
        const CheckpointSettings& checkpoint = settings_.values.checkpoint;
        for (const std::string& hint : checkpoint.hdf5_hint)
            if (hint.find('=') == std::string::npos || hint.starts_with('='))
                complain({"hdf5_hint"}, "must be written as key=value");
        if (!checkpoint.hdf5_hint.empty() && checkpoint.hdf5_io != Hdf5Io::mpio)
            complain({"hdf5_hint", "hdf5_io"},
                     "hints are for MPI-IO: give hdf5_io mpio, or leave them out");
    }

    void check_loss() {
        const TrainingSettings& training = settings_.values.training;
        if (training.loss_type != LossType::nll && training.label_smoothing_factor > 0)
            complain({"loss_type", "label_smoothing_factor"},
                     "nll alone smooths its targets; leave one of them out");
        if (training.loss_type != LossType::eaft && settings_.is_fixed("eaft_alpha"))
            complain({"eaft_alpha", "loss_type"},
                     "it is a power of loss_type eaft; give that, or leave eaft_alpha out");
    }

    void check_distillation() {
        const Config& config = settings_.values;
        const TrainingSettings& training = config.training;
        constexpr std::string_view beta = "beta";
        if (training.teacher_scores.empty()) {
            for (const char* name : {"beta", "loss_top_k", "loss_add_tail", "sft_alpha"})
                if (settings_.is_fixed(name) && !(training.learns_answers() && name == beta))
                    complain(
                        {name, "teacher_scores"},
                        "it concerns distillation; name the teacher's scores, or leave it out");
            if (training.temperature != 1 && config.evaluation.top_k == 0 &&
                !training.learns_embeddings())
                complain({"temperature", "teacher_scores", "top_k"},
                         "it is that of a teacher's scores: name them to learn from them, or give "
                         "trainer score a top_k to write them");
            return;
        }
        if (training.beta > 1)
            complain({"beta", "teacher_scores"},
                     "must be at most 1, which is the reverse KL divergence from the teacher");
        if (training.loss_type == LossType::eaft)
            complain({"loss_type", "teacher_scores"},
                     "beside a teacher the loss of the data is nll or dft");
        if (training.label_smoothing_factor > 0)
            complain({"label_smoothing_factor", "teacher_scores"},
                     "a teacher's distribution takes the place of smoothed targets; leave one of "
                     "them out");
        check_scored_rows("teacher_scores");
    }

    void check_anchor() {
        const TrainingSettings& training = settings_.values.training;
        if (training.anchor.empty()) {
            if (settings_.is_fixed("anchor_weight"))
                complain({"anchor_weight", "anchor"},
                         "it is the factor of an anchor's divergence; name the anchor, or leave it "
                         "out");
            return;
        }
        if (!training.teacher_scores.empty())
            complain({"anchor", "teacher_scores"},
                     "a run reads the scores of one model; leave one of them out");
        check_scored_rows("anchor");
    }

    // scores: the setting that names stored scores.
    void check_scored_rows(const char* scores) {
        const Config& config = settings_.values;
        if (config.data.packing && config.data.packing_strategy == PackingStrategy::wrapped)
            complain({"packing_strategy", scores},
                     "wrapped rows have tokens whose context the scoring model has not seen; take "
                     "bfd");
        if (!config.adapter.adapters.empty())
            complain({"adapters", scores},
                     "adapters that train together read no stored scores; train them one by one");
    }

    void check_evaluation() {
        const Config& config = settings_.values;
        check_metric();
        const bool is_best_saved = config.checkpoint.save_strategy == SaveStrategy::best;
        if (is_best_saved && config.evaluation.eval_strategy == Interval::no)
            complain({"save_strategy", "eval_strategy"},
                     "the best model is known by evaluating it: give eval_strategy steps or epoch");
        check_early_stopping();
        check_plateau();
        check_eval_prompts();
        if (!config.evaluation.load_best_model_at_end) return;
        const std::string eval = write_value(config.evaluation.eval_strategy);
        const std::string save = write_value(config.checkpoint.save_strategy);
        if (save != "best" && eval != save)
            complain(
                {"load_best_model_at_end", "eval_strategy", "save_strategy"},
                "the best model can only be kept if it is saved when it is evaluated: give both "
                "strategies the same value");
        const bool by_steps = config.checkpoint.save_strategy == SaveStrategy::steps;
        const double save_steps = config.checkpoint.save_steps;
        const double eval_steps =
            config.evaluation.eval_steps.value_or(config.logging.logging_steps);
        const bool are_alike = (save_steps < 1) == (eval_steps < 1);
        const double rounds = save_steps / eval_steps;
        if (by_steps && (!are_alike || std::abs(rounds - std::round(rounds)) > 1e-9))
            complain({"load_best_model_at_end", "save_steps", "eval_steps"},
                     "every checkpoint needs an evaluation: save_steps must be a multiple of "
                     "eval_steps");
    }

    // A run with several named evaluation sets has no eval_loss, but one for each name.
    void check_metric() {
        const Config& config = settings_.values;
        const auto sets = evaluation_sets(config.data.eval_dataset_name);
        if (!sets) return complain({"eval_dataset_name"}, sets.failure().message);
        const bool are_named = !sets.value().empty() && !sets.value().front().name.empty();
        std::string metric = config.evaluation.metric_for_best_model;
        if (metric.starts_with("eval_")) metric = metric.substr(5);
        std::vector<std::string> known;
        for (const std::string_view number : evaluation_metrics(config.training))
            for (const EvaluationSet& set :
                 are_named ? sets.value() : std::vector<EvaluationSet>{{"", ""}})
                known.push_back(set.name.empty() ? std::string(number)
                                                 : format_text("{}_{}", set.name, number));
        const bool is_asked = config.evaluation.load_best_model_at_end ||
                              config.evaluation.early_stopping_patience || follows_evaluations() ||
                              config.checkpoint.save_strategy == SaveStrategy::best;
        if (metric.empty() && !(are_named && is_asked)) return;
        if (std::ranges::find(known, metric) == known.end())
            complain({"metric_for_best_model"},
                     format_text("{}, with or without eval_{}", one_of(known),
                                 are_named ? ": eval_dataset_name has named sets" : ""));
    }

    void check_eval_prompts() {
        const EvaluationSettings& evaluation = settings_.values.evaluation;
        if (evaluation.eval_prompts.empty()) {
            if (settings_.is_fixed("eval_max_new_tokens"))
                complain({"eval_max_new_tokens"},
                         "has a meaning beside eval_prompts only: give both");
        } else if (evaluation.eval_strategy == Interval::no && !evaluation.eval_on_start) {
            complain({"eval_prompts", "eval_strategy"},
                     "evaluations generate texts from the prompts, and this run has no "
                     "evaluation: give eval_strategy steps or epoch");
        }
    }

    bool follows_evaluations() const {
        return settings_.values.training.lr_scheduler_type == Schedule::reduce_on_plateau;
    }

    void check_plateau() {
        if (!follows_evaluations()) return;
        const Config& config = settings_.values;
        if (config.evaluation.eval_strategy == Interval::no)
            complain({"lr_scheduler_type", "eval_strategy"},
                     "this learning rate falls where evaluations do not improve: give "
                     "eval_strategy steps or epoch");
        if (config.training.warmup_steps > 0)
            complain({"lr_scheduler_type", "warmup_steps"},
                     "this schedule has no warm-up, and transformers passes over it; leave "
                     "warmup_steps out");
        if (config.training.loraplus_lr_ratio != 1)
            complain({"lr_scheduler_type", "loraplus_lr_ratio"},
                     "torch reduces the rates of A and B each by its own limits; leave one of the "
                     "two out");
    }

    void check_early_stopping() {
        const EvaluationSettings& evaluation = settings_.values.evaluation;
        if (!evaluation.early_stopping_patience) {
            if (evaluation.early_stopping_threshold != 0)
                complain({"early_stopping_threshold"},
                         "has a meaning beside early_stopping_patience only: give both");
            return;
        }
        if (evaluation.eval_strategy == Interval::no)
            complain({"early_stopping_patience", "eval_strategy"},
                     "early stopping goes by evaluations: give eval_strategy steps or epoch");
        if (evaluation.metric_for_best_model.empty() && !evaluation.load_best_model_at_end)
            complain({"early_stopping_patience", "metric_for_best_model"},
                     "early stopping compares a number: give metric_for_best_model, or "
                     "load_best_model_at_end, which takes eval_loss");
    }

    void check_offload() {
        const ParallelSettings& parallel = settings_.values.parallel;
        const auto needs_path = [&](const char* device_name, OffloadDevice device,
                                    const char* path_name, const std::string& path) {
            if (device == OffloadDevice::nvme && path.empty())
                complain({device_name, path_name}, "nvme needs the folder for the files");
        };
        needs_path("offload_optimizer_device", parallel.offload_optimizer_device,
                   "offload_optimizer_nvme_path", parallel.offload_optimizer_nvme_path);
        needs_path("offload_param_device", parallel.offload_param_device, "offload_param_nvme_path",
                   parallel.offload_param_nvme_path);
        const bool is_deepspeed = parallel.distributed_type == DistributedType::deepspeed;
        if (is_deepspeed && parallel.offload_param_device != OffloadDevice::none &&
            parallel.zero_stage != 3)
            complain({"offload_param_device", "zero_stage"},
                     "weights are sharded, and can be offloaded, at stage 3 only");
        if (is_deepspeed && parallel.offload_optimizer_device != OffloadDevice::none &&
            parallel.zero_stage == 0)
            complain({"offload_optimizer_device", "zero_stage"},
                     "optimizer state is sharded from stage 1 on");
    }

    // A backend stands for the settings that are not given; all ranks get them by their names.
    void settle_fp8_backend() {
        TrainingSettings& training = settings_.values.training;
        if (!training.has_fp8() || training.fp8_backend != Fp8Backend::te) return;
        const Origin origin = settings_.origin_of("fp8_backend");
        if (settings_.given.contains("fp8_recipe") && training.fp8_recipe != Fp8Recipe::delayed)
            return complain({"fp8_backend", "fp8_recipe"},
                            "te means fp8_recipe delayed: leave one of them out");
        if (!settings_.given.contains("fp8_recipe")) {
            training.fp8_recipe = Fp8Recipe::delayed;
            settings_.given["fp8_recipe"] = {"delayed", origin};
        }
        if (settings_.given.contains("fp8_format")) return;
        training.fp8_format = Fp8Format::hybrid;
        settings_.given["fp8_format"] = {"hybrid", origin};
    }

    void check_fp8() {
        settle_fp8_backend();
        const TrainingSettings& training = settings_.values.training;
        for (const char* const name : {"fp8_format", "fp8_recipe"})
            if (settings_.is_fixed(name) && !training.has_fp8())
                complain({name, "mixed_precision"},
                         format_text("has a meaning with mixed_precision fp8 only: give it, or "
                                     "leave {} out",
                                     name));
        if (training.has_fp8() && training.fp8_recipe == Fp8Recipe::delayed) return;
        const auto needs_delayed = [&](const char* name, bool asks_for_something) {
            if (settings_.is_fixed(name) && asks_for_something)
                complain({name, "fp8_recipe"},
                         format_text("concerns scales from maxima of earlier steps: give "
                                     "mixed_precision fp8 and fp8_recipe delayed, or leave {} out",
                                     name));
        };
        needs_delayed("fp8_amax_history_len", true);
        needs_delayed("fp8_amax_compute_algo", true);
        needs_delayed("fp8_margin", training.fp8_margin != 0);
    }

    void check_residual() {
        const TrainingSettings& training = settings_.values.training;
        if (!training.computes_in_bf16() && training.residual_dtype == NumberType::bf16)
            complain({"residual_dtype", "mixed_precision"},
                     "a computation in fp32 has its residual stream in fp32: leave residual_dtype "
                     "out, or give mixed_precision bf16");
    }

    void check_graphs() {
        const TrainingSettings& training = settings_.values.training;
        if (training.cuda_graphs && training.activation_offloading)
            complain(
                {"cuda_graphs", "activation_offloading"},
                "recorded blocks keep their activations in the GPU's memory; leave one of them "
                "out");
    }

    // gradient_checkpointing switches it on, activation_policy selects how; the stronger source
    // wins.
    void settle_activation_policy() {
        TrainingSettings& training = settings_.values.training;
        if (!training.activation_policy || !settings_.given.contains("gradient_checkpointing"))
            return;
        const bool keeps_all = training.activation_policy->keeps_everything();
        if (keeps_all != training.gradient_checkpointing) return;
        const Strength how = settings_.origin_of("activation_policy").strength;
        const Strength whether = settings_.origin_of("gradient_checkpointing").strength;
        if (how == whether)
            complain({"activation_policy", "gradient_checkpointing"},
                     "checkpointing means a policy of all_but_gate_up, attention or input, and no "
                     "checkpointing means all or everything; leave one out");
        if (how >= whether) return;
        training.activation_policy.reset();
        settings_.given.erase("activation_policy");  // the other ranks read what was given
    }

    void check_automatic_policy() {
        const TrainingSettings& training = settings_.values.training;
        if (!training.activations_kept().is_automatic()) return;
        if (training.activation_offloading)
            complain(
                {"activation_policy", "activation_offloading"},
                "offloaded activations take no memory that auto could divide; name a policy, or "
                "leave one out");
        if (training.cuda_graphs)
            complain(
                {"activation_policy", "cuda_graphs"},
                "a plan does not count the memory of recordings; name a policy, or leave one out");
    }

private:
    void complain(const std::vector<std::string>& names, const std::string& rule) {
        report_.complain(names, rule);
    }

    RuleReport& report_;
    Settings& settings_;
};

}  // namespace

void RuleReport::complain(const std::vector<std::string>& names, const std::string& rule) {
    std::vector<std::string> values;
    for (const std::string& name : names) {
        if (broken_.contains(name)) return;
        const auto given = settings_.given.find(name);
        if (given == settings_.given.end()) {
            values.push_back(name + " [default]");
            continue;
        }
        values.push_back(
            format_text("{} = {} [{}]", name, given->second.text, given->second.origin.place));
    }
    problems_.push_back({ExitCode::settings, format_text("{}: {}", join(values, ", "), rule)});
}

void check_together(Settings& settings, const std::set<std::string>& broken, Problems& problems) {
    RuleReport report(settings, broken, problems);
    Checker checker(report);
    checker.check_packing();
    checker.check_split();
    checker.settle_loss_scale();
    checker.check_learning();
    checker.check_agent_template();
    checker.check_schedule();
    checker.check_optimizer();
    checker.check_env();
    checker.check_model();
    checker.check_trackers();
    checker.check_intervals();
    checker.check_checkpoints();
    checker.check_loss();
    checker.check_distillation();
    checker.check_anchor();
    checker.check_evaluation();
    checker.check_fp8();
    checker.check_residual();
    check_adapters(report);
    check_preferences(report);
    check_scores(report);
    checker.check_offload();
    checker.check_graphs();
    checker.settle_activation_policy();
    checker.check_automatic_policy();
}

}  // namespace ringshard::config
