#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "failing.hpp"

namespace ringshard::text::jinja {

enum class TokenKind : uint8_t {
    data,
    print_begin,
    print_end,
    tag_begin,
    tag_end,
    name,
    text,
    integer,
    real,
    sign,  // an operator or a bracket
    end,
};

struct Token {
    TokenKind kind = TokenKind::end;
    int line = 1;
    std::string text = {};  // unescaped
    int64_t integer = 0;
    double real = 0;

    bool is(TokenKind wanted) const { return kind == wanted; }
    bool is_name(std::string_view word) const { return kind == TokenKind::name && text == word; }
    bool is_sign(std::string_view sign) const { return kind == TokenKind::sign && text == sign; }
};

// Returns a name for messages: "end of print statement".
std::string describe(const Token& token);

// Splits a template into tokens, like jinja2 with trim_blocks and lstrip_blocks.
std::vector<Token> tokenize(std::string_view source);

}  // namespace ringshard::text::jinja
