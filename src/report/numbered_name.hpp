#pragma once

#include <optional>
#include <string_view>

#include "ringshard/base/text.hpp"

namespace ringshard::report {

// Returns 12 for "checkpoint-12" with the prefix "checkpoint-"; nothing for other names, such as
// "checkpoint-4.tmp-1".
inline std::optional<int64_t> number_in_name(std::string_view name, std::string_view before) {
    if (!name.starts_with(before)) return std::nullopt;
    const auto number = read_whole_number(name.substr(before.size()));
    return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace ringshard::report
