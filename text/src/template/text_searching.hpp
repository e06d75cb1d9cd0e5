#pragma once

#include <string>
#include <string_view>

#include "run.hpp"

// Searching, splitting and aligning text, for methods and filters.
namespace ringshard::text::jinja {

Datum split_text(Run& run, const Datum& self, Arguments& arguments, bool from_right);
Datum ends_or_starts(Run& run, const Datum& self, Arguments& arguments, std::string_view name,
                     bool starts);
int64_t find_text(Run& run, const Datum& self, Arguments& arguments, bool from_right);
int64_t count_text(Run& run, const Datum& self, Arguments& arguments);
std::string replaced(Run& run, std::string_view text, std::string_view old, std::string_view by,
                     int64_t count);
// align: '<', '>' or '^'.
std::string aligned(Run& run, std::string_view text, int64_t width, char align,
                    std::string_view fill);
Datum parted(Run& run, const Datum& self, std::string_view separator, const Datum& separator_datum,
             bool from_right);

// Python's islower() and similar: at least one cased letter, and none of another case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_title(std::string_view text);

}  // namespace ringshard::text::jinja
