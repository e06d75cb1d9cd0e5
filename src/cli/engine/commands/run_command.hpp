#pragma once

#include <optional>

#include "ringshard/cli/engine.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::cli {

// Runs a command of all ranks without autograd. Returns its exit code, after the message of its
// failure. Collective over the world.
int run_command(const run::CommandContext& context,
                std::optional<comm::AgreedFailure> (*command)(const run::CommandContext&));

}  // namespace ringshard::cli
