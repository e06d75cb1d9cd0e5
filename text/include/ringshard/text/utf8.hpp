#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringshard::text {

// Returns true if the bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes);

void append_utf8(std::string& text, uint32_t code_point);

}  // namespace ringshard::text
