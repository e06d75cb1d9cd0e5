#pragma once

#include <cuda_fp8.h>

#include <cmath>
#include <cstring>

#include "fp8_kernels.hpp"
#include "numbers.cuh"

// Numbers as codes of FP8, and the power of two by which a scale multiplies them before.
namespace ringshard::ops::gpu::fp8 {

inline constexpr int codes_of_pack = 16;

struct Most {
    RINGSHARD_BOTH uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

RINGSHARD_BOTH uint32_t magnitude_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits & 0x7fffffffU;
}

RINGSHARD_BOTH float power_of_two(int32_t exponent) {
    const int32_t bits = (exponent + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

// Returns the largest exponent with which the magnitude stays in the range of the format, whose
// largest number is 1.75 x 2^8 or 1.75 x 2^15; at most 110, so that all is normal in bf16.
RINGSHARD_BOTH int32_t exponent_of(uint32_t magnitude, Fp8Type type) {
    const int32_t of_largest = type == Fp8Type::e4m3 ? 8 : 15;
    const int32_t exponent = of_largest - (static_cast<int32_t>(magnitude >> 23) - 127) -
                             ((magnitude & 0x7fffffU) > 0x600000U ? 1 : 0);
    return exponent < 110 ? exponent : 110;
}

RINGSHARD_BOTH uint8_t code_of(float number, Fp8Type type) {
    const float largest = type == Fp8Type::e4m3 ? 448.0F : 57344.0F;
    constexpr uint8_t not_a_number = 0x7f;
    if (!(fabsf(number) <= largest)) return not_a_number;
    return __nv_cvt_float_to_fp8(number, __NV_SATFINITE,
                                 type == Fp8Type::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

inline constexpr uint32_t infinity = 0x7f800000U;

// Codes of pairs; finite numbers beyond the range become the largest one.
template <int n>
RINGSHARD_BOTH Pack<uint8_t, n> codes_of_finite(const Floats<n>& numbers, float scale,
                                                Fp8Type type) {
    Pack<uint8_t, n> pack;
    for (int k = 0; k < n; k += 2) {
        const float2 pair = {numbers[k] * scale, numbers[k + 1] * scale};
        const uint16_t codes = type == Fp8Type::e4m3
                                   ? __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)
                                   : __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E5M2);
        memcpy(pack.numbers + k, &codes, sizeof(codes));
    }
    return pack;
}

// With a scale that may be too large: finite numbers beyond the range become the largest one.
// most: no magnitude is larger.
template <int n>
RINGSHARD_BOTH Pack<uint8_t, n> saturating_codes_of(const Floats<n>& numbers, uint32_t most,
                                                    float scale, Fp8Type type) {
    if constexpr (n > 1)
        if (most < infinity) return codes_of_finite<n>(numbers, scale, type);
    const float largest = type == Fp8Type::e4m3 ? 448.0F : 57344.0F;
    Pack<uint8_t, n> pack;
    for (int k = 0; k < n; ++k) {
        const float within = fminf(fmaxf(numbers[k] * scale, -largest), largest);
        pack.numbers[k] = code_of(magnitude_of(numbers[k]) < infinity ? within : NAN, type);
    }
    return pack;
}

// With the scale that follows from the largest magnitude.
template <int n>
RINGSHARD_BOTH Pack<uint8_t, n> codes_of(const Floats<n>& numbers, uint32_t largest, float scale,
                                         Fp8Type type) {
    if constexpr (n > 1)
        if (largest < infinity) return codes_of_finite<n>(numbers, scale, type);
    Pack<uint8_t, n> pack;
    for (int k = 0; k < n; ++k) pack.numbers[k] = code_of(numbers[k] * scale, type);
    return pack;
}

// Teams come in any order, and the largest of all numbers does not depend on it.
RINGSHARD_BOTH void raise(uint32_t* place, uint32_t magnitude) {
    NV_IF_ELSE_TARGET(NV_IS_HOST,
                      (uint32_t seen = __atomic_load_n(place, __ATOMIC_RELAXED);
                       while (seen < magnitude &&
                              !__atomic_compare_exchange_n(place, &seen, magnitude, false,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED)){}),
                      (atomicMax(place, magnitude);))
}

// Sixteen bytes at a time.
template <int n, class T>
RINGSHARD_BOTH Floats<n> load_packs(const T* from) {
    constexpr int of_pack = n == 1 ? 1 : 16 / static_cast<int>(sizeof(T));
    Floats<n> all;
    for (int first = 0; first < n; first += of_pack) {
        const Floats<of_pack> part = load<of_pack>(from + first);
        for (int k = 0; k < of_pack; ++k) all[first + k] = part[k];
    }
    return all;
}

template <int n>
RINGSHARD_BOTH uint32_t largest_of(const Floats<n>& numbers) {
    uint32_t most = 0;
    for (int k = 0; k < n; ++k) most = Most()(most, magnitude_of(numbers[k]));
    return most;
}

}  // namespace ringshard::ops::gpu::fp8
