#include "sums.hpp"

#include <cstdint>

#include "ringshard/base/bf16.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/simd.hpp"

namespace ringshard::comm {

namespace {

RINGSHARD_SIMD void add_floats(float* __restrict into, const float* __restrict from, size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] += from[i];
}
RINGSHARD_SIMD void add_doubles(double* __restrict into, const double* __restrict from,
                                size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] += from[i];
}
// Adds integers as unsigned ones, which wrap around.
RINGSHARD_SIMD void add_longs(uint64_t* __restrict into, const uint64_t* __restrict from,
                              size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] += from[i];
}
RINGSHARD_SIMD void add_ints(uint32_t* __restrict into, const uint32_t* __restrict from,
                             size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] += from[i];
}
RINGSHARD_SIMD void add_bytes(uint8_t* __restrict into, const uint8_t* __restrict from,
                              size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] = static_cast<uint8_t>(into[i] + from[i]);
}
RINGSHARD_SIMD void add_bf16(uint16_t* __restrict into, const uint16_t* __restrict from,
                             size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] = to_bf16(from_bf16(into[i]) + from_bf16(from[i]));
}

template <class Number>
Number* as(std::byte* bytes) {
    return reinterpret_cast<Number*>(bytes);
}
template <class Number>
const Number* as(const std::byte* bytes) {
    return reinterpret_cast<const Number*>(bytes);
}

}  // namespace

void add(std::byte* into, const std::byte* from, size_t bytes, at::ScalarType type) {
    switch (type) {
        case at::kFloat: return add_floats(as<float>(into), as<float>(from), bytes / 4);
        case at::kDouble: return add_doubles(as<double>(into), as<double>(from), bytes / 8);
        case at::kBFloat16: return add_bf16(as<uint16_t>(into), as<uint16_t>(from), bytes / 2);
        case at::kInt: return add_ints(as<uint32_t>(into), as<uint32_t>(from), bytes / 4);
        case at::kLong: return add_longs(as<uint64_t>(into), as<uint64_t>(from), bytes / 8);
        case at::kByte: return add_bytes(as<uint8_t>(into), as<uint8_t>(from), bytes);
        default: RINGSHARD_CHECK(false, "no sums of type {}", c10::toString(type));
    }
}

}  // namespace ringshard::comm
