#include "ringshard/text/utf8.hpp"

#include <cstddef>
#include <cstring>

namespace ringshard::text {

namespace {

// Returns the bytes of the character that begins here; 0 if none does.
std::size_t length_of_character(std::string_view bytes) {
    const auto at = [&](std::size_t i) -> uint32_t {
        return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
    };
    const auto continues = [&](std::size_t i) { return (at(i) & 0xC0U) == 0x80; };
    const uint32_t first = at(0);
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    if (first < 0xE0) return continues(1) ? 2 : 0;
    const uint32_t two = first << 8U | at(1);
    if (first < 0xF0) {
        const bool is_overlong = two < 0xE0A0;
        const bool is_surrogate = two >= 0xEDA0 && two <= 0xEDBF;
        return continues(1) && continues(2) && !is_overlong && !is_surrogate ? 3 : 0;
    }
    const bool is_in_range = two >= 0xF090 && two <= 0xF48F;
    return is_in_range && continues(1) && continues(2) && continues(3) ? 4 : 0;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
    while (!bytes.empty()) {
        uint64_t eight = 0;
        while (bytes.size() >= 8) {
            std::memcpy(&eight, bytes.data(), 8);
            if ((eight & 0x8080808080808080) != 0) break;
            bytes.remove_prefix(8);
        }
        if (bytes.empty()) break;
        const std::size_t length = length_of_character(bytes);
        if (length == 0) return false;
        bytes.remove_prefix(length);
    }
    return true;
}

void append_utf8(std::string& text, uint32_t code_point) {
    const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
    if (code_point < 0x80) return put(code_point);
    if (code_point < 0x800) {
        put(0xC0U | code_point >> 6U);
    } else {
        if (code_point < 0x10000) {
            put(0xE0U | code_point >> 12U);
        } else {
            put(0xF0U | code_point >> 18U);
            put(0x80U | (code_point >> 12U & 0x3FU));
        }
        put(0x80U | (code_point >> 6U & 0x3FU));
    }
    put(0x80U | (code_point & 0x3FU));
}

}  // namespace ringshard::text
