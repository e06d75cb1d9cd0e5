#pragma once

#include <string>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard::text::jinja {

// Ends the parsing or rendering of one template. Deep code throws it; ChatTemplate catches it and
// returns a Failure.
struct TemplateError {
    std::string message;
    int line = 0;  // 0: the line of the current statement
    // Corresponds to Python's TypeError and similar, some of which jinja2 treats as "no".
    bool is_lack = false;
};

// A message alone, or a pattern and its values, as format_text() has them.
[[noreturn]] inline void fail(const std::string& message) { throw TemplateError{message}; }

template <class Value, class... Values>
[[noreturn]] void fail(TextPattern<1 + sizeof...(Values)> pattern, const Value& value,
                       const Values&... values) {
    throw TemplateError{format_text(pattern, value, values...)};
}

[[noreturn]] inline void fail_at(int line, const std::string& message) {
    throw TemplateError{message, line};
}

template <class Value, class... Values>
[[noreturn]] void fail_at(int line, TextPattern<1 + sizeof...(Values)> pattern, const Value& value,
                          const Values&... values) {
    throw TemplateError{format_text(pattern, value, values...), line};
}

}  // namespace ringshard::text::jinja
