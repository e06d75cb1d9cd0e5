#pragma once

#include <utility>

#include "ringshard/base/error.hpp"

namespace ringshard {

// An integer conversion that keeps the value or ends the job: narrow<int>(count) at the edge of
// MPI.
template <class To, class From>
constexpr To narrow(From value) {
    RINGSHARD_CHECK(std::in_range<To>(value), "value {}", value);
    return static_cast<To>(value);
}

}  // namespace ringshard
