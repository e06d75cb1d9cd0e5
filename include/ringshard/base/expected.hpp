#pragma once

#include <utility>
#include <variant>

#include "ringshard/base/error.hpp"

namespace ringshard {

// A value, or the failure that prevented it.
template <class T, class Why = Failure>
class [[nodiscard]] Expected {
public:
    Expected(T value) : content_(std::move(value)) {}
    Expected(Why failure) : content_(std::move(failure)) {}

    explicit operator bool() const { return std::holds_alternative<T>(content_); }
    const Why& failure() const { return std::get<Why>(content_); }

    // Where a failure cannot be handled: it ends the job with its message and code.
    T& value() & { return throw_if_failed(), std::get<T>(content_); }
    const T& value() const& { return throw_if_failed(), std::get<T>(content_); }
    T&& value() && { return throw_if_failed(), std::get<T>(std::move(content_)); }

private:
    void throw_if_failed() const {
        if (!*this) throw Error(failure());
    }
    std::variant<T, Why> content_;
};

}  // namespace ringshard
