#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// trainer prepare: the rows that training will see, made ahead of the job. Collective over the
// world.
int run_prepare(const CommandContext& context);

}  // namespace ringshard::cli
