#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/gemm.hpp"

// Products of linear layers whose factors are in FP8. Numbers that are multiplied and added share
// a scale: a row of each factor. A scale is the largest power of two that keeps the row in the
// range of the format, so it changes no bit of a mantissa, and FP8 numbers with their scale are
// exact in bf16. A row's numbers do not depend on other rows: nor on the batch, nor on how it is
// split.
namespace ringshard::ops {

// e4m3 has three bits of mantissa and numbers up to 448, e5m2 two bits and numbers up to 57344.
enum class Fp8Format { e4m3, e5m2 };

enum class Fp8Scales { of_rows, of_columns };

// Returns x [rows, columns], in its own type, rounded to the nearest numbers of FP8 with their
// scales. A number that is not finite becomes NaN. Columns: sizes must be multiples of 16.
at::Tensor round_to_fp8(const at::Tensor& x, Fp8Format format, Fp8Scales scales);

// Returns true if a GPU has products in FP8 with a weight [out, in]: multiples of 16.
constexpr bool fits_fp8(int64_t out, int64_t in) { return out % 16 == 0 && in % 16 == 0; }

// y = x w^T + bias, all bf16, the factors in e4m3; sums in fp32. x [t, in], w [out, in]; bias [out]
// or undefined.
at::Tensor fp8_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias = {});

// dx = dy w, dy in this format and w, whose columns have a scale here, in e4m3.
at::Tensor fp8_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                     const at::Tensor& weight, Fp8Format format);

}  // namespace ringshard::ops
