#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// silu(gate) * up, where a row of gate_up [t, 2i] is gate, then up. Result [t, i].
at::Tensor swiglu(const at::Tensor& gate_up);

// Turns gate_up into its gradient, and d_product [t, i], the gradient of the product, into the
// product itself, which the gradient of the weights behind it needs: made here it costs no second
// pass (2 % of a step in bf16). Where the product was kept, d_product stays as it is.
void swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up,
                     bool makes_product = true);

}  // namespace ringshard::ops
