#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

// Weights in four bits, as NF4 of bitsandbytes: the code of a weight names one of 16 values from -1
// to 1, and a block of weights has a scale, its largest absolute value. Scales may be quantised
// themselves (nested, or double, quantisation): less their mean, to 8 bits, in blocks with an fp32
// scale each.
namespace ringshard::ops {

inline constexpr int64_t nf4_block = 64;          // weights of a scale
inline constexpr int64_t nf4_block_bytes = 32;    // of its codes
inline constexpr int64_t nf4_nested_block = 256;  // scales of a scale

// The values of codes, ascending: of weights, and of nested scales (bitsandbytes' dynamic map).
inline constexpr std::array<float, 16> nf4_values{
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};
const std::array<float, 256>& nf4_scale_values();

// Quantises consecutive blocks of a matrix; the last one may be short, if the matrix ends with it.
// A byte holds two codes, the first in the higher bits; the rest of a short block is codes of 0.
void quantize_nf4(std::span<const float> weights, std::span<uint8_t> codes,
                  std::span<float> scales);

// The scales of a matrix, quantised.
struct NestedScales {
    std::vector<uint8_t> codes;
    std::vector<float> scales;  // of each block of codes
    float mean;
};
NestedScales quantize_scales(std::span<const float> scales);

// A matrix in four bits.
struct Nf4Matrix {
    at::Tensor codes;          // [blocks * nf4_block_bytes] uint8
    at::Tensor scales;         // [blocks], fp32; or uint8, nested
    at::Tensor nested_scales;  // fp32, of nested scales
    at::Tensor mean;           // [1] fp32, of nested scales
};
// Writes all weights of the matrix into `into`, dense, fp32 or bf16.
void dequantize_nf4(const at::Tensor& into, const Nf4Matrix& from);

}  // namespace ringshard::ops
