#pragma once

#include <string_view>
#include <vector>

namespace ringshard::text::jinja {

// A code point whose other case is more than one code point, or that folds specially.
struct SpecialCase {
    char32_t code_point;
    std::string_view mapped;
};

// In order of their code points.
const std::vector<SpecialCase>& special_upper_cases();
const std::vector<SpecialCase>& special_title_cases();
const std::vector<SpecialCase>& special_folded_cases();

}  // namespace ringshard::text::jinja
