#pragma once

#include "adapter_logs.hpp"
#include "evaluations.hpp"
#include "log.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

struct AdapterEnd {
    const RunParts& parts;
    const Evaluations::Standing& standing;  // of the adapter
    AdapterLogs& logs;
    Log& log;
};
// Writes the result of an adapter that has ended, while the others train on: its files, those of
// its best step if load_best_model_at_end is set, its last line of metrics and its
// trainer_state.json. No save may be under way where the best step is loaded. Collective over the
// world.
std::optional<comm::AgreedFailure> write_adapter(size_t adapter, const AdapterEnd& end);

}  // namespace ringshard::train
