#pragma once

#include "evaluations.hpp"
#include "learner_logs.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

struct LearnerEnd {
    const RunParts& parts;
    const Evaluations& evaluations;
    LearnerLogs& logs;
    Log& log;
};
// Writes the result of a learner that has ended, while others may train on: its files, those of its
// best step if load_best_model_at_end is set; where it has metrics of its own, their last line and
// its trainer_state.json. No save may be under way. Collective over the world.
std::optional<comm::AgreedFailure> end_learner(size_t learner, const LearnerEnd& end);

}  // namespace ringshard::train
