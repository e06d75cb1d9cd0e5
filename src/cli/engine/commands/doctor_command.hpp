#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// Looks at the machine, MPI, the devices and the network of this job, and says what is wrong.
// Collective over the world.
int run_doctor(const CommandContext& context);

}  // namespace ringshard::cli
