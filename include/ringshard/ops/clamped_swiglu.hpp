#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// (1 + u) * g * sigmoid(alpha * g), with g = min(gate, limit) and u = clamp(up, -limit, limit).
// The columns of gate_up [n, 2i] alternate: gate, up, gate, up. Returns [n, i].
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
