#pragma once

#include <string>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard::text::jinja {

// Ends the reading or rendering of one template. Thrown from deep inside expressions and caught at
// the module's border, where it becomes a Failure.
struct TemplateError {
    std::string message;
    int line = 0;  // 0: that of the statement at work
    // Like Python's TypeError and the like: jinja2 takes some of them for "no".
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
