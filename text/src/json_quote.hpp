#pragma once

#include <string>
#include <string_view>

namespace ringshard::text {

// Appends a text as a JSON string, with its quotes. only_ascii: other characters become \uXXXX.
void append_quoted_json(std::string& out, std::string_view text, bool only_ascii);

}  // namespace ringshard::text
