#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// silu(gate) * up, where a row of gate_up [t, 2i] is gate, then up. Result [t, i].
at::Tensor swiglu(const at::Tensor& gate_up);

// Gradient of gate_up; written over gate_up, which nothing needs after it.
void swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up);

}  // namespace ringshard::ops
