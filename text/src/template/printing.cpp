#include "printing.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "calls.hpp"
#include "compare.hpp"
#include "failing.hpp"
#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

std::string real_repr(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    // Python uses positional notation for exponents from -4 to 15.
    const double size = std::abs(value);
    const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
    std::array<char, 400> digits{};
    const auto form = plain ? std::chars_format::fixed : std::chars_format::scientific;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, form).ptr;
    std::string text(digits.data(), end);
    if (plain && text.find('.') == std::string::npos) text += ".0";
    return text;
}

namespace {

void append_escape(std::string& out, char32_t c) {
    static constexpr char digits[] = "0123456789abcdef";
    const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    out += '\\';
    out += width == 2 ? 'x' : width == 4 ? 'u' : 'U';
    for (int shift = 4 * (width - 1); shift >= 0; shift -= 4) out += digits[(c >> shift) & 15U];
}

void append_quoted(std::string& out, std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const bool has_double = text.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out += quote;
    while (!text.empty()) {
        const char32_t c = take_code_point(text);
        if (c == static_cast<char32_t>(quote) || c == '\\') {
            out += '\\';
            append_code_point(out, c);
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (is_printable(c)) {
            append_code_point(out, c);
        } else {
            append_escape(out, c);
        }
    }
    out += quote;
}

void append_items(std::string& out, const std::vector<Datum>& items, int depth) {
    for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += ", ";
        append_repr(out, items[i], depth + 1);
    }
}

void append_members(std::string& out, const std::vector<Member>& members, int depth) {
    out += '{';
    for (size_t i = 0; i < members.size(); ++i) {
        if (i > 0) out += ", ";
        append_repr(out, members[i].first, depth + 1);
        out += ": ";
        append_repr(out, members[i].second, depth + 1);
    }
    out += '}';
}

void append_view(std::string& out, const View& view, int depth) {
    static constexpr std::array<std::string_view, 3> names{"dict_keys([", "dict_values([",
                                                           "dict_items(["};
    out += names[static_cast<size_t>(view.of)];
    for (size_t i = 0; i < view.dict->members.size(); ++i) {
        const auto& [name, value] = view.dict->members[i];
        if (i > 0) out += ", ";
        if (view.of == View::Of::items) out += '(';
        if (view.of != View::Of::values) append_repr(out, name, depth + 1);
        if (view.of == View::Of::items) out += ", ";
        if (view.of != View::Of::keys) append_repr(out, value, depth + 1);
        if (view.of == View::Of::items) out += ')';
    }
    out += "])";
}

void append_range(std::string& out, const Range& range) {
    out += format_text("range({}, {}", range.start, range.stop);
    if (range.step != 1) out += format_text(", {}", range.step);
    out += ')';
}

}  // namespace

void append_repr(std::string& out, const Datum& value, int depth) {
    if (depth > max_data_depth) fail("data is nested more than {} deep", max_data_depth);
    switch (value.kind()) {
        case Kind::missing:
        case Kind::undefined: out += "Undefined"; break;
        case Kind::none: out += "None"; break;
        case Kind::boolean: out += value.truth() ? "True" : "False"; break;
        case Kind::integer: out += std::to_string(value.integer()); break;
        case Kind::large: out += std::to_string(value.large()); break;
        case Kind::real: out += real_repr(value.real()); break;
        case Kind::text:
            if (value.is_markup()) out += "Markup(";
            append_quoted(out, value.text());
            if (value.is_markup()) out += ')';
            break;
        case Kind::list:
            out += '[';
            append_items(out, value.items(), depth);
            out += ']';
            break;
        case Kind::tuple:
            out += '(';
            append_items(out, value.items(), depth);
            out += value.items().size() == 1 ? ",)" : ")";
            break;
        case Kind::dict: append_members(out, value.as<Dict>().members, depth); break;
        case Kind::range: append_range(out, value.as<Range>()); break;
        case Kind::view: append_view(out, value.as<View>(), depth); break;
        case Kind::space:
            out += "<Namespace ";
            append_members(out, value.as<Space>().members->members, depth);
            out += '>';
            break;
        case Kind::iterator: out += format_text("<{} object>", type_name(value)); break;
        case Kind::callable:
        case Kind::loop: out += static_cast<Callable*>(value.object())->print(); break;
    }
}

void append_text(std::string& out, const Datum& value) {
    switch (value.kind()) {
        case Kind::missing:
        case Kind::undefined: break;
        case Kind::text: out += value.text(); break;
        default: append_repr(out, value);
    }
}

std::string to_text(const Datum& value) {
    std::string text;
    append_text(text, value);
    return text;
}

std::string repr(const Datum& value) {
    std::string text;
    append_repr(text, value);
    return text;
}

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '\'': out += "&#39;"; break;
            case '"': out += "&#34;"; break;
            default: out += c;
        }
    }
    return out;
}

std::string to_markup(const Datum& value) {
    if (value.is(Kind::text) && value.is_markup()) return std::string(value.text());
    return escaped(to_text(value));
}

}  // namespace ringshard::text::jinja
