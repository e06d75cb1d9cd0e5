#pragma once

#include <memory>

#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/model/recorder.hpp"
#include "start_up.hpp"

namespace ringshard::cli {

// What cuda_graphs asks for; nothing where it does not.
comm::Agreed<std::unique_ptr<model::Recorder>> open_recorder(const EngineCall& call,
                                                             const StartUp& start);

// How many batches came of it.
void tell_replays(const model::Replays& replays);

}  // namespace ringshard::cli
