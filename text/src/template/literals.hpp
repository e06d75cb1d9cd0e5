#pragma once

#include "lexer.hpp"

namespace ringshard::text::jinja {

// A number or a quoted text, and its bytes in the template.
struct Literal {
    Token token;
    size_t size = 0;
};

// Reads what begins with a digit. Behind a dot, as in a.1.2, a number is whole.
Literal read_number(std::string_view left, bool after_dot, int line);

// Reads what begins with a quotation mark.
Literal read_text(std::string_view left, int line);

}  // namespace ringshard::text::jinja
