#include "lexer.hpp"

#include <algorithm>
#include <array>

#include "literals.hpp"
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
    void add(Literal literal) {
        tokens_.push_back(std::move(literal.token));
        advance(literal.size);
    }

    void text_until_tag();
    void add_text(std::string_view text, char sign, bool is_print);
    bool raw_block(size_t tag);
    void comment();
    void inside(TokenKind begin, TokenKind end);
    bool closes(TokenKind end);
    void one_token();
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

void Lexer::one_token() {
    std::string_view left = rest();
    const char32_t first = take_code_point(left);
    if (is_space(first)) return skip_space();
    if (first >= U'0' && first <= U'9')
        return add(read_number(rest(), at_ > 0 && source_[at_ - 1] == '.', line_));
    if (first == '\'' || first == '"') return add(read_text(rest(), line_));
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
