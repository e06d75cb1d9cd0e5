#include "json_quote.hpp"

#include <cstdint>

#include "ringshard/base/utf8.hpp"

namespace ringshard::text {

namespace {

void append_unit(std::string& out, uint32_t unit) {
    static constexpr char digits[] = "0123456789abcdef";
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += digits[(unit >> shift) & 15U];
}

// Characters above U+FFFF become a surrogate pair.
void append_beyond_ascii(std::string& out, char32_t c) {
    if (c < 0x10000) return append_unit(out, c);
    append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
    append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

void append_ascii(std::string& out, char c) {
    switch (c) {
        case '"': out += "\\\""; break;
        case '\\': out += "\\\\"; break;
        case '\n': out += "\\n"; break;
        case '\r': out += "\\r"; break;
        case '\t': out += "\\t"; break;
        case '\b': out += "\\b"; break;
        case '\f': out += "\\f"; break;
        default:
            if (static_cast<unsigned char>(c) < 0x20) {
                append_unit(out, static_cast<unsigned char>(c));
            } else {
                out += c;
            }
    }
}

}  // namespace

void append_quoted_json(std::string& out, std::string_view text, bool only_ascii) {
    out += '"';
    while (!text.empty()) {
        if (only_ascii && !is_ascii(text.front())) {
            append_beyond_ascii(out, take_code_point(text));
            continue;
        }
        append_ascii(out, text.front());
        text.remove_prefix(1);
    }
    out += '"';
}

}  // namespace ringshard::text
