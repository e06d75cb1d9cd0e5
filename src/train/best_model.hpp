#pragma once

#include <optional>
#include <set>
#include <span>

#include "ringshard/config/config.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// Which evaluation was the best so far, by metric_for_best_model, and of which checkpoint that can
// be told: as in transformers, the last one that was made right after an evaluation better than all
// before.
class BestModel {
public:
    explicit BestModel(const config::EvaluationSettings& settings);

    // Is it better than all before? Lines without the metric are none, and what the model was worth
    // before the first step does not count. A line about a save is noted.
    bool take(const MetricsLine& line);
    void note_save(int64_t step);

    const std::string& metric() const { return metric_; }
    std::optional<double> value() const { return value_; }
    std::optional<int64_t> step() const { return step_; }
    std::optional<int64_t> saved_step() const { return saved_step_; }

private:
    std::string metric_;  // "eval_loss"
    bool greater_is_better_;
    std::optional<double> value_;
    std::optional<int64_t> step_;
    std::set<int64_t> better_than_before_;  // steps; their saves may be told of later
    std::optional<int64_t> saved_step_;
};

}  // namespace ringshard::train
