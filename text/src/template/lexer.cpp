#include "lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

namespace {

// Converts "\r\n" and "\r" to "\n", and drops one newline at the end.
std::string with_plain_newlines(std::string_view source) {
    std::string plain;
    plain.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            plain += source[i];
            continue;
        }
        plain += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
    if (plain.ends_with('\n')) plain.pop_back();
    return plain;
}

class Lexer {
public:
    explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}
    std::vector<Token> run();

private:
    std::string_view rest() const { return std::string_view(source_).substr(at_); }
    bool starts_with(std::string_view start) const { return rest().starts_with(start); }
    void advance(size_t bytes);
    void skip_space();
    void add(TokenKind kind, std::string text = {}) { tokens_.push_back({kind, line_, text}); }

    void text_until_tag();
    void add_text(std::string_view text, char sign, bool is_print);
    bool raw_block(size_t tag);
    void comment();
    void inside(TokenKind begin, TokenKind end);
    bool closes(TokenKind end);
    void one_token();
    void number();
    void quoted();
    void sign();

    const std::string source_;
    size_t at_ = 0;
    int line_ = 1;
    // True after a line break: only there lstrip_blocks drops white space before a tag.
    bool line_starting_ = true;
    std::string open_brackets_;
    std::vector<Token> tokens_;
};

void Lexer::advance(size_t bytes) {
    const std::string_view passed = rest().substr(0, bytes);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    at_ += bytes;
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
}

void Lexer::skip_space() { advance(rest().size() - strip_left(rest()).size()); }

std::vector<Token> Lexer::run() {
    while (at_ < source_.size()) text_until_tag();
    add(TokenKind::end);
    return std::move(tokens_);
}

// Adds text, trimmed by the sign after "{%" and by the options.
void Lexer::add_text(std::string_view text, char sign, bool is_print) {
    const int line = line_;
    std::string_view kept = text;
    if (sign == '-') {
        kept = strip_right(text);
    } else if (sign != '+' && !is_print) {
        const size_t newline = text.rfind('\n');
        const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
        if ((begin > 0 || line_starting_) && strip_left(text.substr(begin)).empty())
            kept = text.substr(0, begin);
    }
    if (!kept.empty()) tokens_.push_back({TokenKind::data, line, std::string(kept)});
    advance(text.size());
}

void Lexer::text_until_tag() {
    size_t tag = at_;
    for (;; ++tag) {
        tag = source_.find('{', tag);
        if (tag == std::string::npos || tag + 1 >= source_.size()) {
            add_text(rest(), '+', false);
            return;
        }
        const char next = source_[tag + 1];
        if (next == '%' || next == '{' || next == '#') break;
    }
    if (raw_block(tag)) return;
    const char kind = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const char sign = after == '-' || after == '+' ? after : ' ';
    add_text(rest().substr(0, tag - at_), sign, kind == '{');
    const size_t opening = sign == ' ' ? 2 : 3;
    if (kind == '#') {
        advance(opening);
        comment();
    } else if (kind == '%') {
        add(TokenKind::tag_begin);
        advance(opening);
        inside(TokenKind::tag_begin, TokenKind::tag_end);
    } else {
        add(TokenKind::print_begin);
        advance(opening);
        inside(TokenKind::print_begin, TokenKind::print_end);
    }
}

// Returns the bytes of "{% WORD %}" with its signs and white space; 0 for other text. Keeps the
// newline after `raw`, drops it after `endraw`.
size_t word_tag(std::string_view text, std::string_view word, bool ends) {
    std::string_view left = text;
    if (!left.starts_with("{%")) return 0;
    left.remove_prefix(2);
    if (!left.empty() && (left[0] == '-' || left[0] == '+')) left.remove_prefix(1);
    left = strip_left(left);
    if (!left.starts_with(word)) return 0;
    left = strip_left(left.substr(word.size()));
    if (left.starts_with("-%}")) return text.size() - strip_left(left.substr(3)).size();
    if (ends && left.starts_with("+%}")) return text.size() - left.size() + 3;
    if (!left.starts_with("%}")) return 0;
    left.remove_prefix(2);
    if (ends && left.starts_with("\n")) left.remove_prefix(1);
    return text.size() - left.size();
}

bool Lexer::raw_block(size_t tag) {
    const std::string_view source = source_;
    const size_t opening = word_tag(source.substr(tag), "raw", false);
    if (opening == 0) return false;
    add_text(rest().substr(0, tag - at_), source[tag + 2], false);
    const int line = line_;
    advance(opening);
    for (size_t end = source.find("{%", at_); end != std::string_view::npos;
         end = source.find("{%", end + 1)) {
        const size_t closing = word_tag(source.substr(end), "endraw", true);
        if (closing == 0) continue;
        add_text(rest().substr(0, end - at_), source[end + 2], false);
        advance(closing);
        return true;
    }
    fail_at(line, "the end of the raw block, {% endraw %}, is missing");
}

void Lexer::comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail_at(line_, "the end of the comment, #}, is missing");
    const char before = end > at_ ? source_[end - 1] : ' ';
    advance(end + 2 - at_);
    if (before == '-') {
        skip_space();
    } else if (before != '+' && starts_with("\n")) {
        advance(1);
    }
}

bool Lexer::closes(TokenKind end) {
    if (!open_brackets_.empty()) return false;
    const std::string_view closing = end == TokenKind::tag_end ? "%}" : "}}";
    const bool is_tag = end == TokenKind::tag_end;
    const std::string_view left = rest();
    const bool stripping = left.starts_with("-") && left.substr(1).starts_with(closing);
    const bool keeping = is_tag && left.starts_with("+") && left.substr(1).starts_with(closing);
    if (!stripping && !keeping && !left.starts_with(closing)) return false;
    add(end);
    advance(stripping || keeping ? 3 : 2);
    if (stripping) {
        skip_space();
    } else if (is_tag && !keeping && starts_with("\n")) {
        advance(1);
    }
    return true;
}

void Lexer::inside(TokenKind begin, TokenKind end) {
    while (at_ < source_.size()) {
        if (closes(end)) return;
        one_token();
    }
    open_brackets_.clear();
    (void)begin;
}

// jinja2 takes more characters than names may have, and then refuses the name.
bool is_in_name(char32_t c) { return is_alphanumeric(c) || is_name_part(c); }
bool is_plain_digit(char c) { return c >= '0' && c <= '9'; }

void Lexer::one_token() {
    std::string_view left = rest();
    const char32_t first = take_code_point(left);
    if (is_space(first)) return skip_space();
    if (is_plain_digit(static_cast<char>(first)) && first < 0x80) return number();
    if (first == '\'' || first == '"') return quoted();
    if (!is_in_name(first)) return sign();
    if (!starts_name(first))
        fail_at(line_, "a name cannot begin with this character: {}", rest().substr(0, 8));
    while (!left.empty()) {
        std::string_view ahead = left;
        const char32_t next = take_code_point(ahead);
        if (!is_in_name(next)) break;
        if (!is_name_part(next))
            fail_at(line_, "a name cannot hold this character: {}",
                    left.substr(0, left.size() - ahead.size()));
        left = ahead;
    }
    const size_t size = rest().size() - left.size();
    add(TokenKind::name, std::string(rest().substr(0, size)));
    advance(size);
}

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

void Lexer::number() {
    const std::string_view left = rest();
    Token token{TokenKind::integer, line_};
    const size_t whole = digits_of(left, is_plain_digit);
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (const size_t fraction = after_dot ? 0 : fraction_of(left.substr(whole)); fraction > 0) {
        const std::string digits = without_underscores(left.substr(0, whole + fraction));
        token.kind = TokenKind::real;
        const auto parsed =
            std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
        if (parsed.ec != std::errc()) token.real = std::strtod(digits.c_str(), nullptr);
        tokens_.push_back(token);
        return advance(whole + fraction);
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
    if (parsed.ec != std::errc()) fail_at(line_, "the number {} is too large", digits);
    tokens_.push_back(token);
    advance(size);
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

void Lexer::quoted() {
    const std::string_view left = rest();
    Token token{TokenKind::text, line_};
    size_t at = 1;
    while (at < left.size() && left[at] != left[0]) {
        if (left[at] != '\\') {
            token.text += left[at++];
        } else {
            if (++at >= left.size()) break;
            at += unescape(left.substr(at), token.text, line_);
        }
    }
    if (at >= left.size())
        fail_at(line_, "the text that begins with {} has no end", left.substr(0, 1));
    tokens_.push_back(std::move(token));
    advance(at + 1);
}

void Lexer::sign() {
    static constexpr std::array<std::string_view, 6> doubles{"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
    std::string_view found = rest().substr(0, 2);
    if (std::ranges::find(doubles, found) == doubles.end()) found = found.substr(0, 1);
    if (found.size() == 1 && singles.find(found[0]) == std::string_view::npos)
        fail_at(line_, "this character has no meaning here: {}",
                rest().substr(0, byte_of_code_point(rest(), 1)));
    static constexpr std::string_view opening = "([{";
    static constexpr std::string_view closing = ")]}";
    if (const size_t kind = opening.find(found[0]); kind != std::string_view::npos)
        open_brackets_ += closing[kind];
    if (closing.find(found[0]) != std::string_view::npos) {
        if (open_brackets_.empty()) fail_at(line_, "'{}' closes nothing", found);
        if (open_brackets_.back() != found[0])
            fail_at(line_, "'{}' where '{}' is expected", found, open_brackets_.back());
        open_brackets_.pop_back();
    }
    add(TokenKind::sign, std::string(found));
    advance(found.size());
}

}  // namespace

std::string describe(const Token& token) {
    switch (token.kind) {
        case TokenKind::data: return "text of the template";
        case TokenKind::print_begin: return "{{";
        case TokenKind::print_end: return "}}";
        case TokenKind::tag_begin: return "{%";
        case TokenKind::tag_end: return "%}";
        case TokenKind::text: return format_text("the text '{}'", token.text);
        case TokenKind::integer: return format_text("the number {}", token.integer);
        case TokenKind::real: return format_text("the number {}", shortest(token.real));
        case TokenKind::end: return "the end of the template";
        default: return format_text("'{}'", token.text);
    }
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace ringshard::text::jinja
