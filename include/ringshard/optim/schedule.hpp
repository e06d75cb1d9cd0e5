#pragma once

#include <cstdint>

#include "ringshard/config/schedule_settings.hpp"

namespace ringshard::optim {

// Steps of rising learning rate: warmup_steps, or the share of all steps that it is when below 1.
int64_t num_warmup_steps(double warmup_steps, int64_t num_steps);

// The learning rates of a run, as the schedules of transformers and of DeepSpeed give them.
class Schedule {
public:
    Schedule(const config::TrainingSettings& training, int64_t num_steps);

    double learning_rate(int64_t step) const;  // of step 0, 1, ...

private:
    double share(int64_t step) const;  // of the peak learning rate
    double cosine(double progress) const;
    double polynomial(int64_t step) const;
    double warmup_to_cosine(int64_t step) const;
    double warmup_stable_decay(int64_t step) const;
    double deepspeed(int64_t step) const;

    config::Schedule kind_;
    config::ScheduleSettings settings_;
    double peak_;
    int64_t warmup_;
    int64_t num_steps_;
};

}  // namespace ringshard::optim
