#pragma once

#include <optional>

#include "ringshard/comm/agree.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/run_inputs.hpp"
#include "ringshard/run/run_state.hpp"

namespace ringshard::run {

// Fails (78) if output_dir, or the folder of an adapter in it, is a folder from which the run
// reads: that of the model, of the frozen weights of a checkpoint that is the model, or of an
// adapter. The result would replace it. Collective over the world.
std::optional<comm::AgreedFailure> check_output_is_apart(const CommandContext& context,
                                                         const RunInputs& inputs);

// Returns true if the run has written all of its results, and only says so when it starts again.
// Collective over the world.
bool is_complete(const CommandContext& context, const Origin& origin, int64_t num_steps);

}  // namespace ringshard::run
