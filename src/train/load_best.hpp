#pragma once

#include "best_model.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// The best model that is saved, by the step of its checkpoint: as in transformers, that of the last
// one made right after an evaluation better than all before. `coming`: the step of a checkpoint
// that is about to be one. For rank 0, which reads checkpoint.json of each.
std::optional<int64_t> best_checkpoint(const BestModel& best_model,
                                       const std::filesystem::path& output_dir,
                                       std::optional<int64_t> coming = std::nullopt);

// Gives the shards the weights of the best checkpoint, with which the run shall end. Where there is
// none, it says so. Collective over the world.
std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, int64_t step,
                                             const RunParts& parts, Log& log);

}  // namespace ringshard::train
