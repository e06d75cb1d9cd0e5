#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/gemm.hpp"

// Products of linear layers whose factors are in FP8. Numbers that are multiplied and added share
// a scale: a row of each factor, or all of it. A scale is a power of two, so it changes no bit of a
// mantissa, and FP8 numbers with their scale are exact in bf16. The scale of a row is the largest
// one that keeps the row in the range of the format: a row's numbers do not depend on other rows,
// nor on the batch, nor on how it is split. A scale of a whole tensor follows from its numbers in
// the same way (current scaling), or is given (delayed scaling).
namespace ringshard::ops {

// e4m3 has three bits of mantissa and numbers up to 448, e5m2 two bits and numbers up to 57344.
enum class Fp8Format { e4m3, e5m2 };

enum class Fp8Scales { of_rows, of_columns, of_tensor };

// Of a factor whose scale follows from maxima of earlier steps.
struct DelayedScale {
    // [1] int32 on the device of the numbers: the exponent of the scale of all of them, of
    // fp8_exponent(). Numbers beyond the range become the largest one. Undefined: the scale follows
    // from the numbers.
    at::Tensor exponent{};
    // [1] int32: rises to the largest magnitude in the first `counted` rows, as the bits of fp32,
    // those of NaN above all others. Undefined: it is not kept.
    at::Tensor maximum{};
    int64_t counted = 0;
};

// Returns the exponent of the largest scale that keeps this magnitude, a finite number above 0, in
// the range of the format, less the margin; within bounds that keep numbers finite and normal in
// bf16.
int32_t fp8_exponent(float magnitude, Fp8Format format, int64_t margin);

// Returns x [rows, columns], in its own type, rounded to the nearest numbers of FP8 with their
// scales. A number that is not finite becomes NaN. Columns: sizes must be multiples of 16.
// `delayed` gives the scale of a tensor.
at::Tensor round_to_fp8(const at::Tensor& x, Fp8Format format, Fp8Scales scales,
                        const DelayedScale& delayed = {});

// Returns true if a GPU has products in FP8 with a weight [out, in]: multiples of 16.
constexpr bool fits_fp8(int64_t out, int64_t in) { return out % 16 == 0 && in % 16 == 0; }

// y = x w^T + bias, all bf16, the factors in e4m3; sums in fp32. x [t, in], w [out, in]; bias [out]
// or undefined. scales: of_rows or of_tensor, of both factors; `delayed` is that of x, and w is
// scaled by its own numbers.
at::Tensor fp8_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias = {}, Fp8Scales scales = Fp8Scales::of_rows,
                      const DelayedScale& delayed = {});

// dx = dy w, dy in this format and w, whose columns have a scale here where the rows of dy have, in
// e4m3.
at::Tensor fp8_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                     const at::Tensor& weight, Fp8Format format,
                                     Fp8Scales scales = Fp8Scales::of_rows,
                                     const DelayedScale& delayed = {});

}  // namespace ringshard::ops
