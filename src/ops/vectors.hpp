#pragma once

#include <cstdint>

// Vectors of fp32 of one width, and the arithmetic of their lanes. Functions take a class M with
// the types and the number of lanes of such vectors, as VectorsOf16 has them. A file includes this
// once, with the flags of its processor; everything is in an unnamed namespace, so each such file
// has copies of its own.
namespace ringshard::ops {
namespace {

#define RINGSHARD_KERNEL inline __attribute__((always_inline))

RINGSHARD_KERNEL int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
RINGSHARD_KERNEL int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
RINGSHARD_KERNEL int64_t rounded_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

constexpr float minus_infinity = -__builtin_inff();

template <class M>
RINGSHARD_KERNEL typename M::Float load(const float* place) {
    typename M::Float values;
    __builtin_memcpy(&values, place, sizeof values);
    return values;
}

template <class M>
RINGSHARD_KERNEL void put(float* place, typename M::Float values) {
    __builtin_memcpy(place, &values, sizeof values);
}

template <class M>
RINGSHARD_KERNEL typename M::Float spread(float value) {
    return value - typename M::Float{};
}

template <class M>
RINGSHARD_KERNEL typename M::Float greater(typename M::Float a, typename M::Float b) {
    return a > b ? a : b;
}

// Returns the first `count` lanes of `values`, and the other lanes of `rest`.
template <class M>
RINGSHARD_KERNEL typename M::Float keep_first(typename M::Float values, int32_t count,
                                              typename M::Float rest) {
    return M::index() < count ? values : rest;
}

// The numbers of a vector's lanes.
template <int... number>
struct LaneNumbers {};

// Lanes change places with those whose number differs in the bit `by`.
template <int by, class Float, int... lane>
RINGSHARD_KERNEL Float exchanged(Float a, LaneNumbers<lane...>) {
    return __builtin_shufflevector(a, a, (lane ^ by)...);
}

// Rows a and b of a square, whose numbers differ in the bit `by`: the numbers of a in lanes with
// that bit change places with those of b in lanes without it.
template <int by, class Float, int... lane>
RINGSHARD_KERNEL void exchange_corners(Float& a, Float& b, LaneNumbers<lane...>) {
    constexpr int count = sizeof...(lane);
    const Float upper =
        __builtin_shufflevector(a, b, ((lane & by) != 0 ? count + lane - by : lane)...);
    b = __builtin_shufflevector(a, b, ((lane & by) != 0 ? count + lane : lane + by)...);
    a = upper;
}

// A square of as many rows as lanes.
template <class M, int by = M::lanes / 2>
RINGSHARD_KERNEL void transpose(typename M::Float* rows) {
#pragma GCC unroll 16
    for (int r = 0; r < M::lanes; ++r)
        if ((r & by) == 0) exchange_corners<by>(rows[r], rows[r + by], typename M::Lanes());
    if constexpr (by > 1) transpose<M, by / 2>(rows);
}

// Every lane gets the greater of itself and of another, until all are the same.
template <class M, int by = M::lanes / 2>
RINGSHARD_KERNEL float greatest_lane(typename M::Float values) {
    if constexpr (by == 0)
        return values[0];
    else
        return greatest_lane<M, by / 2>(
            greater<M>(values, exchanged<by>(values, typename M::Lanes())));
}

// e^x to two units in the last place, for x of at most about 80; 0 below what normal numbers hold.
template <class M>
RINGSHARD_KERNEL typename M::Float exponential(typename M::Float x) {
    using Float = typename M::Float;
    using Word = typename M::Word;
    const Float lowest = spread<M>(-87.336544F);
    const Float inside = x < lowest ? lowest : x;
    // Adding it rounds to a whole number, which the lowest bits of the sum hold.
    constexpr float rounder = 12582912.0F;
    const Float sum = inside * 1.44269504088896341F + rounder;
    const Float n = sum - rounder;
    const Float r = inside - n * 0.693359375F + n * 2.12194440e-4F;
    Float y = spread<M>(1.9875691500e-4F);
    y = y * r + 1.3981999507e-3F;
    y = y * r + 8.3334519073e-3F;
    y = y * r + 4.1665795894e-2F;
    y = y * r + 1.6666665459e-1F;
    y = y * r + 5.0000001201e-1F;
    y = y * (r * r) + r + 1.0F;
    const auto power = reinterpret_cast<Float>((reinterpret_cast<Word>(sum) << 23) + (127 << 23));
    return x < lowest ? Float{} : y * power;
}

// tanh(x) to a few units in the last place.
template <class M>
RINGSHARD_KERNEL typename M::Float hyperbolic_tangent(typename M::Float x) {
    using Float = typename M::Float;
    const Float size = x < 0.0F ? -x : x;
    const Float z = x * x;
    Float y = spread<M>(-5.70498872745e-3F);
    y = y * z + 2.06390887954e-2F;
    y = y * z - 5.37397155531e-2F;
    y = y * z + 1.33314422036e-1F;
    y = y * z - 3.33332819422e-1F;
    const Float near_0 = x + x * z * y;
    const Float limit = spread<M>(20.0F);
    const Float far = 1.0F - 2.0F / (exponential<M>(2.0F * (size < limit ? size : limit)) + 1.0F);
    return size < 0.625F ? near_0 : (x < 0.0F ? -far : far);
}

struct VectorsOf16 {
    static constexpr int lanes = 16;
    typedef float Float __attribute__((vector_size(64)));
    typedef int32_t Word __attribute__((vector_size(64)));
    typedef uint16_t Halves __attribute__((vector_size(32)));
    static RINGSHARD_KERNEL Word index() {
        return Word{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    }
    using Lanes = LaneNumbers<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
};
struct VectorsOf8 {
    static constexpr int lanes = 8;
    typedef float Float __attribute__((vector_size(32)));
    typedef int32_t Word __attribute__((vector_size(32)));
    typedef uint16_t Halves __attribute__((vector_size(16)));
    static RINGSHARD_KERNEL Word index() { return Word{0, 1, 2, 3, 4, 5, 6, 7}; }
    using Lanes = LaneNumbers<0, 1, 2, 3, 4, 5, 6, 7>;
};

struct VectorsOf4 {
    static constexpr int lanes = 4;
    typedef float Float __attribute__((vector_size(16)));
    typedef int32_t Word __attribute__((vector_size(16)));
    typedef uint16_t Halves __attribute__((vector_size(8)));
    static RINGSHARD_KERNEL Word index() { return Word{0, 1, 2, 3}; }
    using Lanes = LaneNumbers<0, 1, 2, 3>;
};

}  // namespace
}  // namespace ringshard::ops
