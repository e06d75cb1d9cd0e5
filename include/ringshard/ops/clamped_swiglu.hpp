#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// (1 + up) * gate * sigmoid(alpha * gate), gate at most the limit and up between its negative and
// it. Columns of gate_up [n, 2i] take turns: gate, up, gate, up. Result [n, i].
struct ClampedSwigluForm {
    double alpha;
    double limit;
};
at::Tensor clamped_swiglu(const at::Tensor& gate_up, const ClampedSwigluForm& form);

// Turns gate_up into its gradient, and d_product [n, i], the gradient of the result, into the
// result itself.
void clamped_swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up,
                             const ClampedSwigluForm& form);

}  // namespace ringshard::ops
