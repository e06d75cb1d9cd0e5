#include "ringshard/base/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace ringshard {

namespace {

// A code point, or its beginning.
struct Sequence {
    size_t length;
    bool whole;
};

// The second byte has a narrower range after some lead bytes: no overlong forms, surrogates or code
// points above U+10FFFF.
Sequence sequence_at(std::string_view bytes, size_t place) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const unsigned lead = byte(place);
    if (lead < 0x80) return {1, true};
    if (lead < 0xC2 || lead > 0xF4) return {1, false};
    const size_t wanted = code_point_length(bytes[place]);
    const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < wanted; ++i) {
        if (place + i == bytes.size()) return {i, false};
        const unsigned next = byte(place + i);
        if (next < (i == 1 ? least : 0x80) || next > (i == 1 ? most : 0xBF)) return {i, false};
    }
    return {wanted, true};
}

// Returns `place` moved over whole groups of eight bytes that are all ASCII.
size_t skip_ascii(std::string_view bytes, size_t place) {
    for (; place + 8 <= bytes.size(); place += 8) {
        uint64_t eight = 0;
        std::memcpy(&eight, bytes.data() + place, 8);
        if ((eight & 0x8080808080808080) != 0) break;
    }
    return place;
}

}  // namespace

std::optional<size_t> first_invalid_byte(std::string_view bytes) {
    for (size_t place = skip_ascii(bytes, 0); place < bytes.size();) {
        const Sequence sequence = sequence_at(bytes, place);
        if (!sequence.whole) return place;
        place = skip_ascii(bytes, place + sequence.length);
    }
    return std::nullopt;
}

void append_lossy(std::string& text, std::string_view bytes) {
    while (const auto invalid = first_invalid_byte(bytes)) {
        text += bytes.substr(0, *invalid);
        text += "\xEF\xBF\xBD";
        bytes.remove_prefix(*invalid + sequence_at(bytes, *invalid).length);
    }
    text += bytes;
}

size_t count_code_points(std::string_view text) {
    size_t count = 0;
    for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
    return count;
}

size_t byte_of_code_point(std::string_view text, size_t index) {
    for (size_t byte = 0; byte < text.size(); ++byte) {
        if (is_continuation(text[byte])) continue;
        if (index-- == 0) return byte;
    }
    return text.size();
}

unsigned write_code_point(char32_t point, char* into) {
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

}  // namespace ringshard
