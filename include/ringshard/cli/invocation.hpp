#pragma once

#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::cli {

// `trainer [command] flags`, taken apart but not yet understood.
struct Invocation {
    std::string command;
    std::vector<std::string> flags;
    bool wants_help = false;
    std::string help_topic;  // after --help: "all" or the name of a group
};

Expected<Invocation> read_invocation(const std::vector<std::string>& arguments);

// The commands there are, each with one line of what it does.
struct CommandSummary {
    std::string name;
    std::string summary;
};
const std::vector<CommandSummary>& commands();

}  // namespace ringshard::cli
