#pragma once

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

#include "ringshard/base/bf16.hpp"

// Numbers of the two compute types, in a form that compilers turn into vector instructions: every
// operation is done in fp32, and bf16 is rounded to nearest even when it is stored.
namespace ringshard::ops {

using bf16 = c10::BFloat16;

RINGSHARD_INLINE float load(float stored) { return stored; }
RINGSHARD_INLINE float load(bf16 stored) { return from_bf16(stored.x); }

RINGSHARD_INLINE void store(float& place, float value) { place = value; }
RINGSHARD_INLINE void store(bf16& place, float value) { place.x = to_bf16(value); }

// e^x / 2^n for the whole number n nearest to x / log 2.
RINGSHARD_INLINE float exponential_part(float x, float n) {
    float r = x - n * 0.693359375F;
    r = r + n * 2.12194440e-4F;
    float y = 1.9875691500e-4F;
    y = y * r + 1.3981999507e-3F;
    y = y * r + 8.3334519073e-3F;
    y = y * r + 4.1665795894e-2F;
    y = y * r + 1.6666665459e-1F;
    y = y * r + 5.0000001201e-1F;
    return y * (r * r) + r + 1.0F;
}

constexpr float lowest_exponent = -87.336544F;  // e^x is no normal number below

// e^x to two units in the last place; 0 and infinity outside of what fp32 holds.
RINGSHARD_INLINE float exponential(float x) {
    const float inside = x < lowest_exponent ? lowest_exponent : (x > 88.722839F ? 88.722839F : x);
    const float n = __builtin_floorf(inside * 1.44269504088896341F + 0.5F);
    const float y = exponential_part(inside, n);
    // 2^n in two steps, since n may be 128.
    const auto half = static_cast<int32_t>(n) / 2;
    const float first = std::bit_cast<float>((half + 127) << 23);
    const float second = std::bit_cast<float>((static_cast<int32_t>(n) - half + 127) << 23);
    const float result = y * first * second;
    return x < -104.0F ? 0.0F : result;
}

// e^x for x of at most about 80, in two thirds of the instructions; 0 if the result is subnormal.
RINGSHARD_INLINE float exponential_of_small(float x) {
    const float inside = x < lowest_exponent ? lowest_exponent : x;
    const float n = __builtin_floorf(inside * 1.44269504088896341F + 0.5F);
    const float y =
        exponential_part(inside, n) * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
    return x < lowest_exponent ? 0.0F : y;
}

RINGSHARD_INLINE float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

}  // namespace ringshard::ops
