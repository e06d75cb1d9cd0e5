#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringshard::text {

// Whether the bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view bytes);

void append_utf8(std::string& text, uint32_t code_point);

}  // namespace ringshard::text
