#include "ringshard/base/shown.hpp"

#include <array>
#include <cstdio>

#include "ringshard/base/text.hpp"
#include "ringshard/base/utf8.hpp"

namespace ringshard {

namespace {

bool is_control(char32_t point) { return point < 0x20 || (point >= 0x7F && point < 0xA0); }

void append_escaped(std::string& text, char32_t point) {
    if (point == '\n') {
        text += "\\n";
    } else if (point == '\t') {
        text += "\\t";
    } else if (point == '\r') {
        text += "\\r";
    } else if (is_control(point)) {
        std::array<char, 8> escaped{};
        std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(point));
        text += escaped.data();
    } else {
        append_code_point(text, point);
    }
}

// Keeps both ends: the first names the setting, the last the cure.
std::string shown_line(std::string_view line) {
    constexpr size_t most = 4000;
    constexpr size_t last = 1000;
    std::string text = with_escapes(line);
    if (text.size() <= most) return text;
    const size_t begin = code_point_start(text, most - last);
    const size_t end = code_point_start(text, text.size() - last);
    return format_text("{} ... ({} characters are left out) ... {}", text.substr(0, begin),
                       count_code_points(std::string_view(text).substr(begin, end - begin)),
                       text.substr(end));
}

}  // namespace

std::string with_escapes(std::string_view value) {
    std::string valid;
    append_lossy(valid, value);
    std::string text;
    for (std::string_view rest = valid; !rest.empty();) append_escaped(text, take_code_point(rest));
    return text;
}

std::string shown(std::string_view value) {
    constexpr size_t most = 200;
    // A value may have megabytes.
    const bool is_long = value.size() > 4 * most;
    const std::string text = with_escapes(is_long ? value.substr(0, 4 * most) : value);
    if (!is_long && count_code_points(text) <= most) return text;
    return format_text("{}... ({} bytes)", text.substr(0, byte_of_code_point(text, most)),
                       value.size());
}

std::string shown_message(std::string_view message) {
    std::string text;
    for (;;) {
        const size_t end = message.find('\n');
        text += shown_line(message.substr(0, end));
        if (end == std::string_view::npos) return text;
        text += '\n';
        message.remove_prefix(end + 1);
    }
}

}  // namespace ringshard
