#include "event_schedule.hpp"
#include "ringshard/config/config.hpp"

#include <algorithm>
#include <cmath>

namespace ringshard::train {

int64_t EventSchedule::interval(double steps, int64_t num_steps) {
    if (steps >= 1) return static_cast<int64_t>(steps);
    return std::max<int64_t>(
        1, static_cast<int64_t>(std::ceil(steps * static_cast<double>(num_steps))));
}

EventSchedule::EventSchedule(const config::Config& config, int64_t num_steps)
    : evaluation_(config.evaluation),
      logging_(config.logging),
      save_strategy_(config.checkpoint.save_strategy),
      num_steps_(num_steps),
      log_interval_(interval(logging_.logging_steps, num_steps)),
      eval_interval_(interval(evaluation_.eval_steps.value_or(logging_.logging_steps), num_steps)),
      save_interval_(interval(config.checkpoint.save_steps, num_steps)) {}

Due EventSchedule::after(int64_t step, double epoch, bool ends_epoch) const {
    const bool is_last = step == num_steps_;
    const bool is_epoch = ends_epoch || is_last;
    const auto passed = [&](config::Interval interval) {
        return interval == config::Interval::epoch ? epoch : static_cast<double>(step);
    };
    const auto at = [&](config::Interval strategy, int64_t every) {
        return (strategy == config::Interval::steps && step % every == 0) ||
               (strategy == config::Interval::epoch && is_epoch);
    };
    Due due;
    due.log =
        at(logging_.logging_strategy, log_interval_) || (logging_.logging_first_step && step == 1);
    due.evaluate = (at(evaluation_.eval_strategy, eval_interval_) ||
                    (evaluation_.eval_strategy == config::Interval::steps && is_last)) &&
                   evaluation_.eval_delay <= passed(evaluation_.eval_strategy);
    due.save = (save_strategy_ == config::SaveStrategy::steps &&
                (step % save_interval_ == 0 || is_last)) ||
               (save_strategy_ == config::SaveStrategy::epoch && is_epoch);
    return due;
}

}  // namespace ringshard::train
