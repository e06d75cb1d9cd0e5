#pragma once

#include "best_model.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// Returns the steps of the checkpoints in output_dir. `coming`: of one that is about to be there.
// For rank 0, which reads checkpoint.json of each.
std::vector<int64_t> saved_steps(const std::filesystem::path& output_dir,
                                 std::optional<int64_t> coming = std::nullopt);

// Gives the shards the weights of the best checkpoint, with which the run shall end: as in
// transformers, that of the last one made right after an evaluation better than all before. Without
// such a checkpoint it logs a warning. Collective over the world.
std::optional<comm::AgreedFailure> load_best(const BestModel& best_model, int64_t step,
                                             const RunParts& parts, Log& log);
// The same of one of the adapters that train together, after its last step, which a run of its own
// would save.
std::optional<comm::AgreedFailure> load_best_of_adapter(const BestModel& best_model, size_t adapter,
                                                        const RunParts& parts, Log& log);

}  // namespace ringshard::train
