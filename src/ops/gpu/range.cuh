#pragma once

#include "numbers.cuh"

namespace ringshard::ops::gpu {

// A team's part of `count` rows or heads.
struct Range {
    int64_t begin;
    int64_t end;
};
RINGSHARD_BOTH Range range_of(int64_t number, int64_t num_ranges, int64_t count) {
    return {count * number / num_ranges, count * (number + 1) / num_ranges};
}

}  // namespace ringshard::ops::gpu
