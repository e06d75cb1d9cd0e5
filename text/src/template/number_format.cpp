#include <array>
#include <charconv>
#include <cmath>

#include "printing.hpp"
#include "run.hpp"
#include "unicode/python_characters.hpp"

// Python's format specifications: "{:>10.2f}", "{:08,d}".
namespace ringshard::text::jinja {

namespace {

struct Specification {
    std::string fill = " ";
    char align = 0;
    char sign = 0;
    bool alternate = false;
    bool zero = false;
    int64_t width = 0;
    char grouping = 0;
    int64_t precision = -1;
    char type = 0;
};

constexpr int64_t max_width = 10'000;

int64_t take_number(std::string_view& text) {
    int64_t number = 0;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        number = number * 10 + (text.front() - '0');
        if (number > max_width) fail("a width of more than {} in a format", max_width);
        text.remove_prefix(1);
    }
    return number;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Specification parse(std::string_view text) {
    Specification result;
    if (!text.empty()) {
        std::string_view rest = text;
        take_code_point(rest);
        if (!rest.empty() && is_align(rest.front())) {
            result.fill = text.substr(0, text.size() - rest.size());
            result.align = rest.front();
            text = rest.substr(1);
        } else if (is_align(text.front())) {
            result.align = text.front();
            text.remove_prefix(1);
        }
    }
    const auto skip = [&](char c) {
        const bool there = text.starts_with(c);
        if (there) text.remove_prefix(1);
        return there;
    };
    for (const char sign : {'+', '-', ' '})
        if (skip(sign)) result.sign = sign;
    result.alternate = skip('#');
    if (skip('0')) {
        result.zero = true;
        if (result.align == 0) {
            result.fill = "0";
            result.align = '=';
        }
    }
    result.width = take_number(text);
    for (const char grouping : {',', '_'})
        if (skip(grouping)) result.grouping = grouping;
    if (skip('.')) {
        if (text.empty() || text.front() < '0' || text.front() > '9')
            fail("the precision is missing in a format");
        result.precision = take_number(text);
    }
    if (!text.empty()) {
        result.type = text.front();
        text.remove_prefix(1);
    }
    if (!text.empty()) fail("'{}' has no meaning in a format", text);
    return result;
}

std::string padded(std::string_view sign, std::string_view body, const Specification& how,
                   char default_align) {
    const char align = how.align == 0 ? default_align : how.align;
    const auto used = static_cast<int64_t>(sign.size() + count_code_points(body));
    const int64_t missing = std::max<int64_t>(how.width - used, 0);
    const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    const auto fill = [&](int64_t count) {
        std::string text;
        for (int64_t i = 0; i < count; ++i) text += how.fill;
        return text;
    };
    const int64_t right = align == '>' || align == '=' ? 0 : missing - left;
    if (align == '=') return concat(sign, fill(missing), body);
    return concat(fill(left), sign, body, fill(right));
}

std::string grouped(std::string digits, char separator, size_t group) {
    size_t end = 0;
    while (end < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[end])) != 0)
        ++end;
    for (size_t at = end; at > group; at -= group) digits.insert(at - group, 1, separator);
    return digits;
}

std::string whole_digits(int64_t number, const Specification& how) {
    const auto size =
        number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
    const int base = how.type == 'x' || how.type == 'X' ? 16
                     : how.type == 'o'                  ? 8
                     : how.type == 'b'                  ? 2
                                                        : 10;
    std::array<char, 70> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, base).ptr;
    std::string text(digits.data(), end);
    if (how.grouping != 0) text = grouped(text, how.grouping, base == 10 ? 3 : 4);
    if (how.type == 'X') text = upper_case(text);
    if (how.alternate && base != 10) text = format_text("0{}{}", how.type, text);
    return text;
}

std::string_view sign_of(bool negative, char sign) {
    if (negative) return "-";
    return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

std::string formatted_whole(int64_t number, const Specification& how) {
    if (how.precision >= 0) fail("a precision is not for whole numbers in a format");
    if (how.type == 'c') {
        std::string text;
        if (number < 0 || number > 0x10FFFF) fail("the number is no character");
        append_code_point(text, static_cast<char32_t>(number));
        return padded("", text, how, '<');
    }
    return padded(sign_of(number < 0, how.sign), whole_digits(number, how), how, '>');
}

}  // namespace

// Formats a number without its sign, by printf's notation.
std::string real_digits(double number, char type, int precision, bool alternate) {
    std::array<char, 16> format{};
    std::snprintf(format.data(), format.size(), "%%%s.%d%c", alternate ? "#" : "", precision, type);
    const int size = std::snprintf(nullptr, 0, format.data(), number);
    std::string text(static_cast<size_t>(size) + 1, '\0');
    std::snprintf(text.data(), text.size(), format.data(), number);
    text.pop_back();
    return text;
}

namespace {

std::string formatted_real(double number, const Specification& how) {
    const bool negative = std::signbit(number) && !std::isnan(number);
    const double size = std::abs(number);
    std::string digits;
    const int precision = static_cast<int>(how.precision);
    if (!std::isfinite(number)) {
        digits = std::isnan(number) ? "nan" : "inf";
    } else if (how.type == 0) {
        if (how.precision < 0) {
            digits = real_repr(size);
        } else {
            digits = real_digits(size, 'g', std::max(precision, 1), how.alternate);
            // Append a fraction, like repr.
            if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
        }
    } else if (how.type == '%') {
        digits = real_digits(size * 100, 'f', precision < 0 ? 6 : precision, how.alternate) + "%";
    } else {
        const char type = how.type == 'n' ? 'g' : how.type;
        digits = real_digits(size, type, precision < 0 ? 6 : precision, how.alternate);
    }
    if (how.grouping != 0) digits = grouped(digits, how.grouping, 3);
    return padded(sign_of(negative, how.sign), digits, how, '>');
}

}  // namespace

std::string formatted(Run& run, const Datum& value, std::string_view specification) {
    if (specification.empty()) return to_text(value);
    Specification how = parse(specification);
    run.step(1 + static_cast<uint64_t>(how.width));
    static constexpr std::string_view real_types = "eEfFgGn%";
    static constexpr std::string_view whole_types = "bcdoxXn";
    const bool is_real_type = how.type != 0 && real_types.find(how.type) != std::string_view::npos;
    if (value.is(Kind::real) || (value.is_whole() && is_real_type && how.type != 'n')) {
        if (how.type != 0 && !is_real_type)
            fail("the format '{}' is not for a {}", how.type, type_name(value));
        return formatted_real(value.real(), how);
    }
    if (value.is_whole()) {
        if (how.type != 0 && whole_types.find(how.type) == std::string_view::npos)
            fail("the format '{}' is not for a {}", how.type, type_name(value));
        return formatted_whole(value.integer(), how);
    }
    if (!value.is(Kind::text))
        fail("the format '{}' is not for a {}", specification, type_name(value));
    if (how.type != 0 && how.type != 's') fail("the format '{}' is not for a text", how.type);
    if (how.grouping != 0 || how.sign != 0 || how.alternate)
        fail("a sign, a '#' or a separator of digits is not for a text in a format");
    if (how.align == '=' && !how.zero) fail("the alignment '=' is not for a text");
    if (how.align == '=') how.align = '<';
    std::string_view text = value.text();
    if (how.precision >= 0)
        text = text.substr(0, byte_of_code_point(text, static_cast<size_t>(how.precision)));
    return padded("", text, how, '<');
}

}  // namespace ringshard::text::jinja
