#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Writes the log-probabilities of the tokens of rows. Collective over the world.
int run_score(const EngineCall& call);

}  // namespace ringshard::cli
