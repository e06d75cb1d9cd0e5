#pragma once

#include "projection_spec.hpp"

// The products of a projection with its weight: in FP8 if the run has such products and the weight
// has sizes for them. The gradient of a weight is no such product: its factors would be scaled
// along the tokens, and so depend on how a batch is split.
namespace ringshard::model {

// x w^T + bias. x [t, in], w [out, in]; bias [out] or undefined.
at::Tensor weight_product(const ProjectionContext& context, const at::Tensor& x,
                          const at::Tensor& weight, const at::Tensor& bias);

// The same and an addend [t, out], in one pass where the product is not in FP8. `into` as
// ops::linear_add() has it.
at::Tensor weight_product_add(const ProjectionContext& context, const at::Tensor& x,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& addend, const at::Tensor& into);

// dy w.
at::Tensor weight_product_backward(const ProjectionContext& context, const at::Tensor& dy,
                                   const at::Tensor& weight);

}  // namespace ringshard::model
