#pragma once

#include <vector>

#include "event_schedule.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

// The events after a step: those of the run, and the learners that log and evaluate.
struct Dues {
    Due run;
    std::vector<size_t> logged{};
    std::vector<size_t> evaluated{};
};

// Learners have the events of runs of their own, and the run logs and saves with each of them.
Dues dues_after(const config::Config& config, const EventSchedule& events, const Trainer& trainer,
                const StepNumbers& numbers);

}  // namespace ringshard::train
