#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace ringshard::ops {

// The factor of a normed number is its weight plus the offset: 1 in models that learn the
// difference from 1.
struct NormWeight {
    NormWeight(at::Tensor of_width, float added = 0) : values(std::move(of_width)), offset(added) {}
    at::Tensor values;  // [w]
    float offset;
};

// y = (weight + offset) * x / rms(x), row by row; on the CPU x may be fp32 beside a bf16 weight.
struct RmsNormed {
    at::Tensor y;            // [t tokens, w width], type of the weight
    at::Tensor inverse_rms;  // [t], fp32
};
RmsNormed rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon);

// The norm of factor * branch + x, all of one type, which is written over the branch [t, w].
RmsNormed add_rms_norm(const at::Tensor& branch, double factor, const at::Tensor& x,
                       const NormWeight& weight, double epsilon);

// Returns the same y again, from the kept inverse_rms: as cheap as reading x.
at::Tensor rms_norm_again(const at::Tensor& x, const NormWeight& weight,
                          const at::Tensor& inverse_rms);

// Adds to dx, of the type of x, and to d_weight [w], fp32; d_weight undefined: it is frozen.
// makes_normed: writes y over dy, to the bit that of rms_norm().
void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const NormWeight& weight, const at::Tensor& dx, const at::Tensor& d_weight,
                       bool makes_normed = false);

// The same for each head by itself. Heads first, first + 1, ... of every row; d is the width of a
// head and of the weight.
struct HeadRange {
    int64_t first;
    int64_t count;
};
struct HeadsBeforeNorm {
    at::Tensor x;            // [t, count, d], as they were
    at::Tensor inverse_rms;  // [t, count], fp32
};
// rows [t, at least (first + count) * d]: the heads are written over.
HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const NormWeight& weight,
                          double epsilon);

// Turns the gradient of the normed heads into that of the heads before the norm, in place; adds to
// d_weight [d], fp32; undefined: the weight is frozen.
void head_norm_backward(const at::Tensor& d_rows, HeadRange heads, const HeadsBeforeNorm& before,
                        const NormWeight& weight, const at::Tensor& d_weight);

}  // namespace ringshard::ops
