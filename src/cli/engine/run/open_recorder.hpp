#pragma once

#include <memory>

#include "placement.hpp"
#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/model/recorder.hpp"

namespace ringshard::cli {

// Returns the recorder that cuda_graphs asks for; nothing without it.
comm::Agreed<std::unique_ptr<model::Recorder>> open_recorder(const CommandContext& context,
                                                             const Placement& placement);

// Prints how many batches were replayed.
void report_replays(const model::Replays& replays);

}  // namespace ringshard::cli
