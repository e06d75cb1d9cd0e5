#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "statement.hpp"

namespace ringshard::config {

struct BuiltinProfile {
    std::string_view name;
    std::string_view yaml;  // the file of that name in configs/
};

// Generated from configs/*.yaml when the program is built.
const std::vector<BuiltinProfile>& builtin_profiles();

// Statements of the profile that `written` names: a built-in one or a file in Accelerate's format.
Statements read_profile(const OptionTable& table, const Statement& written,
                        std::vector<std::string>& notes, Problems& problems);

}  // namespace ringshard::config
