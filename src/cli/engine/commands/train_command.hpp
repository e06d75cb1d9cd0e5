#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Trains a model as the settings say. Collective over the world.
int run_train(const CommandContext& context);

}  // namespace ringshard::cli
