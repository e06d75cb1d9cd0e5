#pragma once

#include <cstdint>
#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/training_settings.hpp"

namespace ringshard::config {

// Shape of the learning rate between two levels.
enum class Course { linear, cosine, root, square, logarithm };

// Values of lr_scheduler_kwargs for reduce_lr_on_plateau, with torch's defaults.
struct PlateauSettings {
    bool wants_least = true;  // mode min
    double factor = 0.1;
    int64_t patience = 10;
    double threshold = 1e-4;
    bool is_relative = true;  // threshold_mode rel
    int64_t cooldown = 0;
    double lowest_rate = 0;      // min_lr
    double least_change = 1e-8;  // eps
};

// Values of lr_scheduler_kwargs, with the defaults of transformers and, for its three schedules, of
// DeepSpeed; each schedule reads its own ones.
struct ScheduleSettings {
    double num_cycles = 0.5;
    double power = 1.0;
    double last_rate = 1e-7;  // lr_end
    std::optional<double> timescale;
    double lowest_share = 0.0;  // min_lr_rate, min_lr as a fraction, min_lr_ratio, cos_min_ratio
    // warmup_lr_rate, warmup_min_ratio, warmup_min_lr as a fraction
    std::optional<double> first_share;
    std::optional<int64_t> total_num_steps;
    int64_t num_decay_steps = 0;
    std::optional<int64_t> num_stable_steps;
    Course warmup_course = Course::linear;
    Course decay_course = Course::cosine;
    PlateauSettings plateau{};
};

// Returns true for DeepSpeed's schedules, which set the rate of a step before they advance.
bool is_of_deepspeed(Schedule schedule);

// Parses lr_scheduler_kwargs. The failure names the broken rule.
Expected<ScheduleSettings> read_schedule_settings(const TrainingSettings& training);

}  // namespace ringshard::config
