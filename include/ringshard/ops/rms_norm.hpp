#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// y = weight * x / rms(x), row by row. Letters: t tokens, w width.
struct RmsNormed {
    at::Tensor y;            // [t, w], type of x
    at::Tensor inverse_rms;  // [t], fp32
};
RmsNormed rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// The same y again, from what was kept: as cheap as reading x.
at::Tensor rms_norm_again(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& inverse_rms);

// Adds to dx [t, w] and to d_weight [w], fp32.
void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const at::Tensor& weight, const at::Tensor& dx, const at::Tensor& d_weight);

}  // namespace ringshard::ops
