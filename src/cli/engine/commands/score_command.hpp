#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Writes the log-probabilities of the tokens of rows. Collective over the world.
int run_score(const CommandContext& context);

}  // namespace ringshard::cli
