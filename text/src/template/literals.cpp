#include "literals.hpp"

#include <charconv>

#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

namespace {

bool is_plain_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the bytes of digits, which single underscores may group.
size_t digits_of(std::string_view text, auto is_digit) {
    size_t size = 0;
    while (size < text.size()) {
        const size_t digit = size > 0 && text[size] == '_' ? size + 1 : size;
        if (digit >= text.size() || !is_digit(text[digit])) break;
        size = digit + 1;
    }
    return size;
}

// Returns the bytes of ".5", "e-3" or ".5e3" after the digits of a number; 0 for other text.
size_t fraction_of(std::string_view text) {
    size_t size = 0;
    if (text.starts_with('.')) {
        const size_t digits = digits_of(text.substr(1), is_plain_digit);
        if (digits == 0) return 0;
        size = 1 + digits;
    }
    const std::string_view power = text.substr(size);
    if (power.size() < 2 || (power[0] | 0x20) != 'e') return size;
    const size_t sign = power[1] == '+' || power[1] == '-' ? 1 : 0;
    const size_t digits = digits_of(power.substr(1 + sign), is_plain_digit);
    return digits == 0 ? size : size + 1 + sign + digits;
}

std::string without_underscores(std::string_view digits) {
    std::string plain(digits);
    std::erase(plain, '_');
    return plain;
}

// Appends the meaning of an escape, and returns its bytes after the backslash.
size_t unescape(std::string_view text, std::string& out, int line) {
    static constexpr std::string_view names = "abfnrtv\\'\"";
    static constexpr std::string_view meanings = "\a\b\f\n\r\t\v\\'\"";
    const char kind = text[0];
    if (const size_t known = names.find(kind); known != std::string_view::npos) {
        out += meanings[known];
        return 1;
    }
    if (kind == '\n') return 1;
    uint32_t code_point = 0;
    if (kind >= '0' && kind <= '7') {
        size_t size = 0;
        for (; size < 3 && size < text.size() && text[size] >= '0' && text[size] <= '7'; ++size)
            code_point = code_point * 8 + static_cast<uint32_t>(text[size] - '0');
        append_code_point(out, code_point);
        return size;
    }
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (kind == 'N')
        fail_at(line,
                "characters by name (\\N{...}) are not supported: write the character itself");
    if (digits == 0) {
        out += '\\';
        return 0;
    }
    const std::string_view hex = text.substr(1, digits);
    const auto parsed = std::from_chars(hex.data(), hex.data() + hex.size(), code_point, 16);
    if (hex.size() < digits || parsed.ptr != hex.data() + digits)
        fail_at(line, "\\{} needs {} hexadecimal digits", kind, digits);
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000))
        fail_at(line, "\\{}{} is no character", kind, hex);
    append_code_point(out, code_point);
    return 1 + digits;
}

}  // namespace

Literal read_number(std::string_view left, bool after_dot, int line) {
    Token token{TokenKind::integer, line};
    const size_t whole = digits_of(left, is_plain_digit);
    if (const size_t fraction = after_dot ? 0 : fraction_of(left.substr(whole)); fraction > 0) {
        const std::string digits = without_underscores(left.substr(0, whole + fraction));
        token.kind = TokenKind::real;
        const auto parsed =
            std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
        if (parsed.ec != std::errc()) token.real = std::strtod(digits.c_str(), nullptr);
        return {token, whole + fraction};
    }
    const char marker = left.size() > 1 && left[0] == '0' ? static_cast<char>(left[1] | 0x20) : ' ';
    const int base = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 10;
    size_t size = 0;
    size_t begin = 0;
    if (base != 10) {
        const auto of_base = [base](char c) {
            const char low = static_cast<char>(c | 0x20);
            const int value = is_plain_digit(c)          ? c - '0'
                              : low >= 'a' && low <= 'f' ? low - 'a' + 10
                                                         : 99;
            return value < base;
        };
        begin = left.size() > 2 && left[2] == '_' ? 3 : 2;
        const size_t digits = digits_of(left.substr(begin), of_base);
        size = digits == 0 ? 0 : begin + digits;
    }
    if (size == 0) {
        begin = 0;
        // Only the number 0 itself begins with 0.
        size = left[0] == '0' ? digits_of(left, [](char c) { return c == '0'; }) : whole;
    }
    const std::string digits = without_underscores(left.substr(begin, size - begin));
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer,
                                        begin == 0 ? 10 : base);
    if (parsed.ec != std::errc()) fail_at(line, "the number {} is too large", digits);
    return {token, size};
}

Literal read_text(std::string_view left, int line) {
    Token token{TokenKind::text, line};
    size_t at = 1;
    while (at < left.size() && left[at] != left[0]) {
        if (left[at] != '\\') {
            token.text += left[at++];
        } else {
            if (++at >= left.size()) break;
            at += unescape(left.substr(at), token.text, line);
        }
    }
    if (at >= left.size())
        fail_at(line, "the text that begins with {} has no end", left.substr(0, 1));
    return {std::move(token), at + 1};
}

}  // namespace ringshard::text::jinja
