#pragma once

#include "best_model.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// Gives the shards the weights of the best checkpoint, with which the run shall end. Where there is
// none, it says so. Collective over the world.
std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, int64_t step,
                                             const RunParts& parts, Log& log);

}  // namespace ringshard::train
