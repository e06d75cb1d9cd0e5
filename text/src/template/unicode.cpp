#include "unicode.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "special_cases.hpp"

namespace ringshard::text::jinja {

namespace {

utf8proc_category_t category(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_space(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_letter(char32_t c) {
    if (c < 0x80) return (c | 0x20U) >= 'a' && (c | 0x20U) <= 'z';
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
    const bool superscript = c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
                             (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
    const bool enclosed = (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
                          (c >= 0x2488 && c <= 0x2490) || c == 0x24EA ||
                          (c >= 0x24F5 && c <= 0x24FD) || c == 0x24FF ||
                          (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) ||
                          (c >= 0x278A && c <= 0x2792);
    return is_decimal(c) || superscript || enclosed;
}

bool is_numeric(char32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    const auto kind = category(c);
    if (kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
        kind == UTF8PROC_CATEGORY_NO)
        return true;
    // Ideographs with a numeric value.
    static constexpr std::u32string_view numbers =
        U"\u3405\u3483\u382A\u3B4D\u4E00\u4E03\u4E07\u4E09\u4E24\u4E5D\u4E8C\u4E94\u4E96\u4EBF"
        U"\u4EC0\u4EDF\u4EE8\u4F0D\u4F70\u5104\u5146\u5169\u516B\u516D\u5341\u5343\u5344\u5345"
        U"\u534C\u53C1\u53C2\u53C3\u53C4\u56DB\u58F1\u58F9\u5E7A\u5EFE\u5EFF\u5F0C\u5F0D\u5F0E"
        U"\u5F10\u62FE\u634C\u67D2\u6F06\u7396\u767E\u8086\u842C\u8CAE\u8CB3\u8D30\u9621\u9646"
        U"\u964C\u9678\u96F6\uF96B\uF973\uF978\uF9B2\uF9D1\uF9D3\uF9FD";
    return numbers.find(c) != std::u32string_view::npos;
}

bool is_printable(char32_t c) {
    if (c < 0x80) return c >= 0x20 && c != 0x7F;
    switch (category(c)) {
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
        case UTF8PROC_CATEGORY_ZS: return false;
        default: return true;
    }
}

bool is_title(char32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }

bool is_upper(char32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z';
    const bool lettered = (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF) ||
                          (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
                          (c >= 0x1F170 && c <= 0x1F189);
    return category(c) == UTF8PROC_CATEGORY_LU || lettered;
}

bool is_lower(char32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z';
    const bool lettered = (c >= 0x2170 && c <= 0x217F) || (c >= 0x24D0 && c <= 0x24E9) ||
                          c == 0xAA || c == 0xBA || (c >= 0x2B0 && c <= 0x2B8) ||
                          (c >= 0x2C0 && c <= 0x2C1) || (c >= 0x2E0 && c <= 0x2E4);
    return category(c) == UTF8PROC_CATEGORY_LL || lettered;
}

namespace {

using OneToOne = utf8proc_int32_t (*)(utf8proc_int32_t);

void append_mapped(std::string& out, char32_t c, OneToOne simple,
                   const std::vector<SpecialCase>& special) {
    if (c >= 0x80) {
        const auto found = std::ranges::lower_bound(special, c, {}, &SpecialCase::code_point);
        if (found != special.end() && found->code_point == c) {
            out += found->mapped;
            return;
        }
    }
    append_code_point(out, static_cast<char32_t>(simple(static_cast<utf8proc_int32_t>(c))));
}

void append_upper(std::string& out, char32_t c) {
    append_mapped(out, c, utf8proc_toupper, special_upper_cases());
}
void append_title(std::string& out, char32_t c) {
    append_mapped(out, c, utf8proc_totitle, special_title_cases());
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }
bool is_ignored_by_case(char32_t c) {
    const auto kind = category(c);
    return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xA8 || c == 0xAD ||
           c == 0xAF || c == 0xB4 || c == 0xB7 || c == 0xB8 || c == 0x2018 || c == 0x2019 ||
           kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
           kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
           kind == UTF8PROC_CATEGORY_SK;
}

// Returns true if a sigma takes its final form, at the end of a word.
bool is_final(std::string_view before, std::string_view after) {
    char32_t neighbour = 0;
    while (!before.empty()) {
        neighbour = take_last_code_point(before);
        if (!is_ignored_by_case(neighbour)) break;
        neighbour = 0;
    }
    if (neighbour == 0 || !is_cased(neighbour)) return false;
    while (!after.empty()) {
        neighbour = take_code_point(after);
        if (!is_ignored_by_case(neighbour)) return !is_cased(neighbour);
    }
    return true;
}

// Appends the lower case of the first code point of `rest`, a tail of `whole`.
void take_lower(std::string& out, std::string_view whole, std::string_view& rest) {
    const std::string_view before = whole.substr(0, whole.size() - rest.size());
    const char32_t c = take_code_point(rest);
    if (c == 0x3A3) return append_code_point(out, is_final(before, rest) ? U'\u03C2' : U'\u03C3');
    if (c == 0x130) {
        out += "i\xCC\x87";
        return;
    }
    append_code_point(out,
                      static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace

std::string upper(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) append_upper(out, take_code_point(text));
    return out;
}

std::string lower(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::string_view rest = text; !rest.empty();) take_lower(out, text, rest);
    return out;
}

std::string casefold(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const char32_t c = take_code_point(text);
        append_mapped(out, c, utf8proc_tolower, special_folded_cases());
    }
    return out;
}

std::string capitalize(std::string_view text) {
    std::string out;
    std::string_view rest = text;
    if (!rest.empty()) append_title(out, take_code_point(rest));
    while (!rest.empty()) take_lower(out, text, rest);
    return out;
}

std::string title(std::string_view text) {
    std::string out;
    bool inside = false;
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view ahead = rest;
        const char32_t c = take_code_point(ahead);
        if (inside) {
            take_lower(out, text, rest);
        } else {
            append_title(out, c);
            rest = ahead;
        }
        inside = is_cased(c);
    }
    return out;
}

std::string swapcase(std::string_view text) {
    std::string out;
    for (std::string_view rest = text; !rest.empty();) {
        std::string_view ahead = rest;
        const char32_t c = take_code_point(ahead);
        if (is_upper(c)) {
            take_lower(out, text, rest);
            continue;
        }
        if (is_lower(c)) {
            append_upper(out, c);
        } else {
            append_code_point(out, c);
        }
        rest = ahead;
    }
    return out;
}

std::string_view strip_left(std::string_view text) {
    while (!text.empty()) {
        std::string_view rest = text;
        if (!is_space(take_code_point(rest))) break;
        text = rest;
    }
    return text;
}

std::string_view strip_right(std::string_view text) {
    while (!text.empty()) {
        std::string_view rest = text;
        if (!is_space(take_last_code_point(rest))) break;
        text = rest;
    }
    return text;
}

}  // namespace ringshard::text::jinja
