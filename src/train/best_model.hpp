#pragma once

#include <optional>
#include <span>

#include "ringshard/config/config.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// Which evaluation was the best so far, by metric_for_best_model.
class BestModel {
public:
    explicit BestModel(const config::EvaluationSettings& settings);

    // Is it better than all before? Lines without the metric are none.
    bool take(const MetricsLine& line);

    const std::string& metric() const { return metric_; }
    std::optional<double> value() const { return value_; }
    std::optional<int64_t> step() const { return step_; }

private:
    std::string metric_;  // "eval_loss"
    bool greater_is_better_;
    std::optional<double> value_;
    std::optional<int64_t> step_;
};

}  // namespace ringshard::train
