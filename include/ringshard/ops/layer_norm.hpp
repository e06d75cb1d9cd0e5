#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/rms_norm.hpp"

// LayerNorm on any device, in fp32 and in slices of rows. Dimensions: t tokens, w width.
namespace ringshard::ops {

struct LayerNorm {
    NormWeight weight;  // without values: the offset alone
    at::Tensor bias;    // [w]; undefined: none
    double epsilon;
};

// y [t, w] = (weight + offset) * (x - mean(x)) / deviation(x) + bias, of the weight's type, or x's.
at::Tensor layer_norm(const at::Tensor& x, const LayerNorm& norm);

// Adds to dx [t, w], and to d_weight and d_bias [w], fp32, where they are defined.
void layer_norm_backward(const at::Tensor& dy, const at::Tensor& x, const LayerNorm& norm,
                         const at::Tensor& dx, const at::Tensor& d_weight,
                         const at::Tensor& d_bias);

}  // namespace ringshard::ops
