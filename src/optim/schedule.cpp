#include "ringshard/optim/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/base/error.hpp"

namespace ringshard::optim {

int64_t num_warmup_steps(double warmup_steps, int64_t num_steps) {
    if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
    return static_cast<int64_t>(std::ceil(warmup_steps * static_cast<double>(num_steps)));
}

double learning_rate(const config::TrainingSettings& settings, int64_t step, int64_t num_steps) {
    const int64_t warmup = num_warmup_steps(settings.warmup_steps, num_steps);
    const auto now = static_cast<double>(step);
    if (step < warmup)
        return settings.learning_rate * (now / std::max(1.0, static_cast<double>(warmup)));
    RINGSHARD_CHECK(settings.lr_scheduler_type == config::Schedule::linear,
                    "schedules other than linear");
    const auto left = static_cast<double>(num_steps - step);
    return settings.learning_rate *
           std::max(0.0, left / std::max(1.0, static_cast<double>(num_steps - warmup)));
}

}  // namespace ringshard::optim
