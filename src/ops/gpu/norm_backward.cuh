#pragma once

#include "numbers.cuh"

// Code that the backward passes of norms share.
namespace ringshard::ops::gpu {

// A team's part of `count` rows or heads.
struct Range {
    int64_t begin;
    int64_t end;
};
RINGSHARD_BOTH Range range_of(int64_t number, int64_t num_ranges, int64_t count) {
    return {count * number / num_ranges, count * (number + 1) / num_ranges};
}

// With n = x * r, r = 1 / rms(x): dx = r * (w dy - n * mean(n w dy)), dw = n dy.
template <class T, int n>
RINGSHARD_BOTH float dot_of(const T* x, const T* dy, const T* weight, float offset, float inverse) {
    const Floats<n> a = load<n>(x);
    const Floats<n> b = load<n>(dy);
    const Floats<n> w = load<n>(weight);
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[k] * inverse * (w[k] + offset) * b[k];
    return sum;
}

}  // namespace ringshard::ops::gpu
