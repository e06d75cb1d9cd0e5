#pragma once

#include "best_model.hpp"
#include "ringshard/config/evaluation_settings.hpp"

namespace ringshard::train {

// Counts evaluations that did not improve on the best one, as transformers' EarlyStoppingCallback.
// Its state follows from the lines of metrics, so a resumed run knows what the first part counted.
class EarlyStopping {
public:
    explicit EarlyStopping(const config::EvaluationSettings& settings)
        : patience_(settings.early_stopping_patience),
          threshold_(settings.early_stopping_threshold) {}

    // Takes an evaluation; other lines are left alone. `best` is of the evaluations before it.
    void take(const MetricsLine& line, const BestModel& best);
    bool asks_to_stop() const { return patience_ && counter_ >= *patience_; }

    std::optional<int64_t> patience() const { return patience_; }
    double threshold() const { return threshold_; }
    int64_t counter() const { return counter_; }

private:
    std::optional<int64_t> patience_;  // unset: never stops
    double threshold_;
    int64_t counter_ = 0;
    bool is_compared_ = false;  // the next evaluation, with those before it
};

}  // namespace ringshard::train
