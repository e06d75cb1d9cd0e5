#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

// Weights in eight bits, as LLM.int8 of bitsandbytes holds them: weights are rounded to fp16, the
// scale of a row is its largest absolute value, and a code counts 127ths of the scale.
namespace ringshard::ops {

// Quantises whole rows of a matrix. Returns false where a weight is beyond the range of fp16.
bool quantize_int8(std::span<const float> weights, int64_t width, std::span<uint8_t> codes,
                   std::span<float> scales);

// A matrix in eight bits.
struct Int8Matrix {
    at::Tensor codes;   // [rows * width] uint8, the bits of int8
    at::Tensor scales;  // [rows] fp32
};
// Writes all weights of the matrix into `into`, dense, fp32 or bf16.
void dequantize_int8(const at::Tensor& into, const Int8Matrix& from);

}  // namespace ringshard::ops
