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

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
    throw TemplateError{concat(parts...)};
}

template <class... Parts>
[[noreturn]] void fail_at(int line, const Parts&... parts) {
    throw TemplateError{concat(parts...), line};
}

}  // namespace ringshard::text::jinja
