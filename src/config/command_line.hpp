#pragma once

#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "statement.hpp"

namespace ringshard::config {

// Parses --flag value, --flag=value, a bare --flag for true, --no_flag for false; dashes count as
// underscores.
Statements read_command_line(const OptionTable& table, const std::vector<std::string>& arguments,
                             Problems& problems);

// Parses RINGSHARD_LEARNING_RATE=1e-4. A few reserved names are not settings.
Statements read_environment(const OptionTable& table, const Environment& environment,
                            Problems& problems);

}  // namespace ringshard::config
