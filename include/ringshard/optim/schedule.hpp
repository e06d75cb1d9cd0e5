#pragma once

#include <cstdint>

#include "ringshard/config/config.hpp"

namespace ringshard::optim {

// Steps of rising learning rate: warmup_steps, or the share of all steps that it is when below 1.
int64_t num_warmup_steps(double warmup_steps, int64_t num_steps);

// The learning rate of step 0, 1, ..., as transformers' schedules give it.
double learning_rate(const config::TrainingSettings& settings, int64_t step, int64_t num_steps);

}  // namespace ringshard::optim
