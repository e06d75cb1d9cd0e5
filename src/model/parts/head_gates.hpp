#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/model/block_spec.hpp"

// Gates of what heads have seen, as they were projected.
namespace ringshard::model {

// gates [t, h], or [t, h d] of their elements. Returns the factors.
at::Tensor opened(HeadGates kind, const at::Tensor& gates);
// seen [t, h d] times the factors of heads or of their elements.
at::Tensor scale_heads(const at::Tensor& seen, const at::Tensor& factors);

struct GateGradient {
    at::Tensor seen;
    at::Tensor gates;
};
// d: the gradient of what heads have seen times the factors.
GateGradient gates_backward(HeadGates kind, const at::Tensor& d, const at::Tensor& seen,
                            const at::Tensor& gates);

}  // namespace ringshard::model
