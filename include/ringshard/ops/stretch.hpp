#pragma once

#include <cstdint>

namespace ringshard::ops {

// Adjacent tokens of one document: a range of the rows that this rank holds.
struct Stretch {
    int64_t begin;
    int64_t length;
    bool operator==(const Stretch&) const = default;
};

}  // namespace ringshard::ops
