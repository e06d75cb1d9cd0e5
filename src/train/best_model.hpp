#pragma once

#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "ringshard/train/metrics.hpp"

namespace ringshard::config {
struct Config;
struct EvaluationSettings;
}  // namespace ringshard::config

namespace ringshard::train {

// Returns true if the settings ask for a best model, which trainer_state.json then names.
bool asks_for_best(const config::Config& config);
// Returns true if its checkpoint stays when save_total_limit removes others.
bool keeps_best(const config::Config& config);

// Finds the best evaluation so far, by metric_for_best_model.
class BestModel {
public:
    explicit BestModel(const config::EvaluationSettings& settings);

    // Returns true if the line is an evaluation better than all before. Ignores lines without the
    // metric, and the evaluation before the first step.
    bool consider(const MetricsLine& line);

    // Returns the best value so far; before the first, the worst possible one.
    double value_or_worst() const {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        return value_.value_or(greater_is_better_ ? -infinity : infinity);
    }
    bool is_better(double found) const {
        return greater_is_better_ ? found > value_or_worst() : found < value_or_worst();
    }
    const std::string& metric() const { return metric_; }
    // Returns the key of the time in lines of the set that has the metric: "eval_runtime", or
    // "eval_NAME_runtime".
    std::string runtime_key() const;
    std::optional<double> value() const { return value_; }
    std::optional<int64_t> step() const { return step_; }
    // The last of these steps after which an evaluation was better than all before.
    std::optional<int64_t> last_best_of(const std::vector<int64_t>& steps) const;

private:
    std::string metric_;  // "eval_loss"
    bool greater_is_better_;
    std::optional<double> value_;
    std::optional<int64_t> step_;
    std::set<int64_t> better_than_before_;  // steps
};

}  // namespace ringshard::train
