#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringshard::config {

enum class Interval { no, steps, epoch };

struct EvaluationSettings {
    Interval eval_strategy = Interval::no;
    std::optional<double> eval_steps;  // unset: logging_steps; below 1: a fraction of all steps
    double eval_delay = 0;
    bool eval_on_start = false;
    bool do_predict = false;  // once more at the end
    int64_t per_device_eval_batch_size = 8;
    bool load_best_model_at_end = false;
    std::string metric_for_best_model;
    std::optional<bool> greater_is_better;
    std::optional<int64_t> early_stopping_patience;  // evaluations; unset: no early stopping
    double early_stopping_threshold = 0;
    std::string eval_prompts;  // path of a file
    int64_t eval_max_new_tokens = 64;
    int64_t top_k = 0;  // used by `score`
};

}  // namespace ringshard::config
