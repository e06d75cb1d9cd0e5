#pragma once

#include <bit>
#include <cstdint>

// bf16 is the upper half of fp32. Inlined by force, so that loops over it become vector
// instructions.
namespace ringshard {

#define RINGSHARD_INLINE inline __attribute__((always_inline))

RINGSHARD_INLINE float from_bf16(uint16_t stored) {
    return std::bit_cast<float>(uint32_t{stored} << 16);
}

// To nearest, ties to even.
RINGSHARD_INLINE uint16_t to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    return static_cast<uint16_t>(is_nan ? 0x7fc0U : rounded);
}

}  // namespace ringshard
