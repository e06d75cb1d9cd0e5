#pragma once

#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::config {
class Settings;
}

namespace ringshard::run {

// The settings with which a command runs, and the ranks on which it runs.
struct CommandContext {
    const std::string& command;
    const config::Settings& settings;
    const std::vector<std::string>& notes;  // from resolving the settings
    const Environment& environment;
    const comm::Group& world;
};

}  // namespace ringshard::run
