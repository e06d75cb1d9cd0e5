#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The functions below expect UTF-8 that was validated once, on input.
namespace ringshard::text {

// Returns the first byte that is not UTF-8.
std::optional<size_t> first_invalid_byte(std::string_view bytes);

// Appends bytes as text: replaces invalid parts by one U+FFFD per maximal subpart.
void append_lossy(std::string& text, std::string_view bytes);

inline bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }
inline bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

inline bool is_ascii(std::string_view text) {
    unsigned char any = 0;
    for (const char byte : text) any |= static_cast<unsigned char>(byte);
    return any < 0x80;
}

// Returns the bytes of the character with this lead byte.
inline unsigned length_of(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the character at `place`, and advances `place`.
inline char32_t next_point(const char*& place) {
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
inline char32_t point_at(const char* place) { return next_point(place); }

// Returns the beginning of the character that contains this byte.
inline size_t character_start(std::string_view text, size_t byte) {
    while (byte > 0 && continues(text[byte])) --byte;
    return byte;
}

// Writes at most four bytes and returns their number.
inline unsigned write_point(char32_t point, char* into) {
    const auto put = [&](int i, char32_t bits) { into[i] = static_cast<char>(bits); };
    if (point < 0x80) return put(0, point), 1;
    if (point < 0x800) {
        put(0, 0xC0 | point >> 6);
        put(1, 0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        put(0, 0xE0 | point >> 12);
        put(1, 0x80 | (point >> 6 & 0x3F));
        put(2, 0x80 | (point & 0x3F));
        return 3;
    }
    put(0, 0xF0 | point >> 18);
    put(1, 0x80 | (point >> 12 & 0x3F));
    put(2, 0x80 | (point >> 6 & 0x3F));
    put(3, 0x80 | (point & 0x3F));
    return 4;
}
inline void append_point(std::string& text, char32_t point) {
    char bytes[4];
    text.append(bytes, write_point(point, bytes));
}

}  // namespace ringshard::text
