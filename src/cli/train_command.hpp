#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Trains a model as the settings say. Collective over the world.
int run_train(const EngineCall& call);

}  // namespace ringshard::cli
