#pragma once

#include <memory>

#include "ringshard/comm/agree.hpp"
#include "ringshard/model/recorder.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/placement.hpp"

namespace ringshard::run {

// Returns the recorder that cuda_graphs asks for; nothing without it.
comm::Agreed<std::unique_ptr<model::Recorder>> open_recorder(const CommandContext& context,
                                                             const Placement& placement);

// Prints how many batches were replayed.
void report_replays(const model::Replays& replays);

}  // namespace ringshard::run
