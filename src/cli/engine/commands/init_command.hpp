#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Makes the folder of a model with random weights from a config.json, so that anyone can try the
// program without a download. Rank 0 works. Collective over the world.
int run_init(const CommandContext& context);

}  // namespace ringshard::cli
