#include "python_characters.hpp"

#include "table.hpp"

namespace ringshard::text::jinja {

namespace {

enum Bits : uint16_t {
    alpha = 1,
    decimal = 2,
    digit = 4,
    number = 8,
    printable = 16,
    space = 32,
    upper_bit = 64,
    lower_bit = 128,
    title_bit = 256,
    case_ignorable = 512,
    name_start = 1024,
    name_part = 2048,
};

bool has(char32_t c, uint16_t bits) {
    static const unicode::PointTable<uint16_t> table(unicode::read_properties<uint16_t>(
        unicode::read_python_categories(), {{unicode::python_alpha, alpha},
                                            {unicode::python_decimal, decimal},
                                            {unicode::python_digit, digit},
                                            {unicode::python_number, number},
                                            {unicode::python_printable, printable},
                                            {unicode::python_space, space},
                                            {unicode::python_upper, upper_bit},
                                            {unicode::python_lower, lower_bit},
                                            {unicode::python_title, title_bit},
                                            {unicode::python_case_ignorable, case_ignorable},
                                            {unicode::python_name_start, name_start},
                                            {unicode::python_name_part, name_part}}));
    return (table[c] & bits) != 0;
}

}  // namespace

bool is_space(char32_t c) { return has(c, space); }
bool is_letter(char32_t c) { return has(c, alpha); }
bool is_decimal(char32_t c) { return has(c, decimal); }
bool is_digit(char32_t c) { return has(c, digit); }
bool is_numeric(char32_t c) { return has(c, number); }
bool is_printable(char32_t c) { return has(c, printable); }
bool is_upper(char32_t c) { return has(c, upper_bit); }
bool is_lower(char32_t c) { return has(c, lower_bit); }
bool is_title(char32_t c) { return has(c, title_bit); }
bool starts_name(char32_t c) { return has(c, name_start); }
bool is_name_part(char32_t c) { return has(c, name_part); }

namespace {

bool is_cased(char32_t c) { return has(c, upper_bit | lower_bit | title_bit); }

void append_mapped(std::string& out, char32_t c, const unicode::Mapping& mapping) {
    char32_t single = 0;
    const auto text = mapping.find(c, single);
    if (text.empty()) return append_code_point(out, c);
    for (const char32_t each : text) append_code_point(out, each);
}

// Returns true if a sigma takes its final form, at the end of a word.
bool is_final(std::string_view before, std::string_view after) {
    char32_t neighbour = 0;
    while (!before.empty()) {
        neighbour = take_last_code_point(before);
        if (!has(neighbour, case_ignorable)) break;
        neighbour = 0;
    }
    if (neighbour == 0 || !is_cased(neighbour)) return false;
    while (!after.empty()) {
        neighbour = take_code_point(after);
        if (!has(neighbour, case_ignorable)) return !is_cased(neighbour);
    }
    return true;
}

// Appends the lower case of the first code point of `rest`, a tail of `whole`.
void take_lower(std::string& out, std::string_view whole, std::string_view& rest) {
    const std::string_view before = whole.substr(0, whole.size() - rest.size());
    const char32_t c = take_code_point(rest);
    constexpr char32_t sigma = 0x3A3, final_sigma = 0x3C2;
    if (c == sigma && is_final(before, rest)) return append_code_point(out, final_sigma);
    append_mapped(out, c, unicode::python_lower_case);
}

}  // namespace

std::string upper(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) append_mapped(out, take_code_point(text), unicode::python_upper_case);
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
    while (!text.empty()) append_mapped(out, take_code_point(text), unicode::python_folded_case);
    return out;
}

std::string capitalize(std::string_view text) {
    std::string out;
    std::string_view rest = text;
    if (!rest.empty()) append_mapped(out, take_code_point(rest), unicode::python_title_case);
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
            append_mapped(out, c, unicode::python_title_case);
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
            append_mapped(out, c, unicode::python_upper_case);
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
