#pragma once

#include "block.hpp"

namespace ringshard::model {

// middle + down(silu(gate) * up), with gate and up of the normed middle. Where gate and up are not
// kept, it runs in chunks of tokens, so that they never exist for the whole row.
at::Tensor mlp_forward(const BlockContext& context, const BlockViews& weights,
                       BlockActivations& activations, bool keeps_gate_up);

// Adds to the gradients of the weights, and turns `gradient`, that of the output, into that of
// middle.
void mlp_backward(const BlockContext& context, const BlockViews& weights,
                  const BlockViews& gradients, const at::Tensor& gradient,
                  const BlockActivations& activations);

}  // namespace ringshard::model
