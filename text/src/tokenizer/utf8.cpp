#include "utf8.hpp"

#include "ringshard/text/utf8.hpp"

namespace ringshard::text {

namespace {

// A character, or its beginning.
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
    const size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < wanted; ++i) {
        if (place + i == bytes.size()) return {i, false};
        const unsigned next = byte(place + i);
        if (next < (i == 1 ? least : 0x80) || next > (i == 1 ? most : 0xBF)) return {i, false};
    }
    return {wanted, true};
}

}  // namespace

std::optional<size_t> first_invalid_byte(std::string_view bytes) {
    if (is_utf8(bytes)) return std::nullopt;
    for (size_t place = 0; place < bytes.size();) {
        const Sequence sequence = sequence_at(bytes, place);
        if (!sequence.whole) return place;
        place += sequence.length;
    }
    return std::nullopt;
}

void append_lossy(std::string& text, std::string_view bytes) {
    if (is_utf8(bytes)) {
        text += bytes;
        return;
    }
    for (size_t place = 0; place < bytes.size();) {
        const Sequence sequence = sequence_at(bytes, place);
        text += sequence.whole ? bytes.substr(place, sequence.length) : "\xEF\xBF\xBD";
        place += sequence.length;
    }
}

}  // namespace ringshard::text
