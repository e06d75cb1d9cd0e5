#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::cli {

// `trainer [command] flags`, taken apart but not yet understood.
struct Invocation {
    std::string command;
    std::vector<std::string> flags;
    bool wants_help = false;
    std::string help_topic;  // after --help: "all", a command, a group or a setting

    bool names_server() const {
        return std::ranges::any_of(flags, [](const std::string& flag) {
            const std::string_view name = std::string_view(flag).substr(0, flag.find('='));
            return name == "--url" || name == "--tolerance";
        });
    }
    bool trains() const { return command == "train" || command == "fork"; }
};

Expected<Invocation> read_invocation(const std::vector<std::string>& arguments);

}  // namespace ringshard::cli
