#pragma once

#include <optional>

#include "ringshard/comm/agree.hpp"
#include "ringshard/run/command_context.hpp"

namespace ringshard::run {

// A run from its settings to its end. Collective over the world.
std::optional<comm::AgreedFailure> train(const CommandContext& given);

}  // namespace ringshard::run
