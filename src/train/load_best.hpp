#pragma once

#include "best_model.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// Returns the steps of the checkpoints in output_dir. `coming`: of one that is about to be there.
// For rank 0, which reads checkpoint.json of each.
std::vector<int64_t> saved_steps(const std::filesystem::path& output_dir,
                                 std::optional<int64_t> coming = std::nullopt);

// Gives a learner the weights of its best checkpoint, with which it shall end: as in transformers,
// that of the last one made right after an evaluation better than all before. Without such a
// checkpoint it logs a warning. No save may be under way. Collective over the world.
std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, size_t learner,
                                             const RunParts& parts, Log& log);

}  // namespace ringshard::train
