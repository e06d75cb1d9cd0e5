#pragma once

#include <cstdint>

namespace ringshard::ops {

// Neighbouring tokens of one document: rows of what a rank holds.
struct Stretch {
    int64_t begin;
    int64_t length;
    bool operator==(const Stretch&) const = default;
};

}  // namespace ringshard::ops
