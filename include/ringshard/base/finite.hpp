#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace ringshard {

// Returns true if no number is infinite or NaN.
inline bool all_finite(std::span<const float> numbers) {
    constexpr uint32_t exponent = 0x7f800000;
    uint32_t num_bad = 0;
    for (const float number : numbers)
        num_bad += (std::bit_cast<uint32_t>(number) & exponent) == exponent ? 1 : 0;
    return num_bad == 0;
}

// The same of bf16 numbers, given as their bits.
inline bool all_finite(std::span<const uint16_t> numbers) {
    constexpr uint16_t exponent = 0x7f80;
    uint32_t num_bad = 0;
    for (const uint16_t number : numbers) num_bad += (number & exponent) == exponent ? 1 : 0;
    return num_bad == 0;
}

}  // namespace ringshard
