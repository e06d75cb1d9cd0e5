#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "ringshard/ops/stretch.hpp"

namespace ringshard::ops {

// y_t = silu(bias + sum over j of w_j x_(t - taps + 1 + j)), each column by itself, within
// stretches that cover the rows in their order. x [t, c] of fp32 or bf16, whose rows lie
// `x.stride(0)` apart.
struct CausalConv {
    at::Tensor weight;                   // [c, 1, taps], of the type of x
    std::span<const Stretch> stretches;  // at least one
    at::Tensor before;  // [stretches, taps - 1, c], of the type of x: the rows before each stretch,
                        // zeros where its document begins
    at::Tensor bias{};  // [c], of the type of x, or undefined
    bool has_silu = true;  // else the sum is the result
};

at::Tensor causal_conv(const at::Tensor& x, const CausalConv& conv);
// dy [t, c] and dx [t, c], whose rows may lie apart too, are fp32; d_weight and d_bias, fp32, are
// added to where they are defined. Returns the gradient of `before`, fp32.
at::Tensor causal_conv_backward(const at::Tensor& dy, const at::Tensor& x, const CausalConv& conv,
                                const at::Tensor& dx, const at::Tensor& d_weight,
                                const at::Tensor& d_bias = {});

}  // namespace ringshard::ops
