#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "statement.hpp"

namespace ringshard::config {

struct BuiltinProfile {
    std::string_view name;
    std::string_view yaml;  // content of the file of that name in configs/
};

// The build generates it from configs/*.yaml.
const std::vector<BuiltinProfile>& builtin_profiles();

// Returns the statements of a profile: a built-in one or a file in Accelerate's format.
Statements read_profile(const OptionTable& table, const Statement& written,
                        std::vector<std::string>& notes, Problems& problems);

}  // namespace ringshard::config
