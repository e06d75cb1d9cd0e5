#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Makes the Hugging Face folder of a checkpoint, on the processors of any number of ranks.
// Collective over the world.
int run_export(const CommandContext& context);

}  // namespace ringshard::cli
