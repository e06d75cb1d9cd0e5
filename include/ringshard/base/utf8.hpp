#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// UTF-8. Functions below the first three expect text that is UTF-8: it was checked on input.
namespace ringshard {

// Returns the first byte that is not UTF-8: an overlong form, a surrogate, a code point above
// U+10FFFF, or a sequence that is cut or begins in its middle.
std::optional<size_t> first_invalid_byte(std::string_view bytes);
inline bool is_utf8(std::string_view bytes) { return !first_invalid_byte(bytes); }

// Appends bytes as text: replaces invalid parts by one U+FFFD per maximal subpart.
void append_lossy(std::string& text, std::string_view bytes);

inline bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }
inline bool is_ascii(std::string_view text) {
    unsigned char any = 0;
    for (const char byte : text) any |= static_cast<unsigned char>(byte);
    return any < 0x80;
}

// Returns true for every byte of a code point but its first.
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Returns the bytes of the code point with this lead byte.
inline unsigned code_point_length(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the beginning of the code point that contains this byte.
inline size_t code_point_start(std::string_view text, size_t byte) {
    while (byte > 0 && is_continuation(text[byte])) --byte;
    return byte;
}

// Returns the code point at `place`, and advances `place`.
inline char32_t next_code_point(const char*& place) {
    const auto byte = [&](int i) { return static_cast<unsigned char>(place[i]); };
    const auto low = [&](int i) { return static_cast<char32_t>(byte(i) & 0x3F); };
    const char32_t lead = byte(0);
    if (lead < 0x80) return ++place, lead;
    char32_t point;
    if (lead < 0xE0) {
        point = (lead & 0x1F) << 6 | low(1);
        place += 2;
    } else if (lead < 0xF0) {
        point = (lead & 0x0F) << 12 | low(1) << 6 | low(2);
        place += 3;
    } else {
        point = (lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
        place += 4;
    }
    return point;
}
inline char32_t code_point_at(const char* place) { return next_code_point(place); }

// Remove and return the first or last code point of a text that is not empty.
inline char32_t take_code_point(std::string_view& text) {
    const char* place = text.data();
    const char32_t point = next_code_point(place);
    text.remove_prefix(static_cast<size_t>(place - text.data()));
    return point;
}
inline char32_t take_last_code_point(std::string_view& text) {
    const size_t start = code_point_start(text, text.size() - 1);
    const char32_t point = code_point_at(text.data() + start);
    text.remove_suffix(text.size() - start);
    return point;
}

size_t count_code_points(std::string_view text);
// Returns the byte at which code point `index` begins; the end if there are fewer.
size_t byte_of_code_point(std::string_view text, size_t index);

// Writes at most four bytes and returns their number.
unsigned write_code_point(char32_t point, char* into);
inline void append_code_point(std::string& text, char32_t point) {
    char bytes[4];
    text.append(bytes, write_code_point(point, bytes));
}

}  // namespace ringshard
