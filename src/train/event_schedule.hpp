#pragma once

#include "ringshard/config/checkpoint_settings.hpp"
#include "ringshard/config/evaluation_settings.hpp"
#include "ringshard/config/logging_settings.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::train {

// The events that are due after a step.
struct Due {
    bool log = false;
    bool evaluate = false;
    bool save = false;
};

// The steps at which a run logs, evaluates and saves, by transformers' rules.
class EventSchedule {
public:
    EventSchedule(const config::Config& config, int64_t num_steps);

    // The end of the run counts as the end of an epoch. Saving the best model is not in here: it
    // depends on the result of an evaluation.
    Due after(int64_t step, double epoch, bool ends_epoch) const;

    // "every 10 steps", or a share of all steps when below 1.
    static int64_t interval(double steps, int64_t num_steps);

    int64_t log_interval() const { return log_interval_; }
    // Returns true if the last step of a run is saved.
    bool saves_last_step() const {
        return save_strategy_ == config::SaveStrategy::steps ||
               save_strategy_ == config::SaveStrategy::epoch;
    }
    int64_t eval_interval() const { return eval_interval_; }
    int64_t save_interval() const { return save_interval_; }

private:
    config::EvaluationSettings evaluation_;
    config::LoggingSettings logging_;
    config::SaveStrategy save_strategy_;
    int64_t num_steps_;
    int64_t log_interval_;
    int64_t eval_interval_;
    int64_t save_interval_;
};

}  // namespace ringshard::train
