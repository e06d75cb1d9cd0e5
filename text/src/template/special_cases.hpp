#pragma once

#include <string_view>
#include <vector>

namespace ringshard::text::jinja {

// A code point that maps to several code points, or has a special case folding.
struct SpecialCase {
    char32_t code_point;
    std::string_view mapped;
};

// Sorted by code point.
const std::vector<SpecialCase>& special_upper_cases();
const std::vector<SpecialCase>& special_title_cases();
const std::vector<SpecialCase>& special_folded_cases();

}  // namespace ringshard::text::jinja
