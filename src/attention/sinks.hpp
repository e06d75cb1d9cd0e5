#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::attention {

// Lets a score of each head take part in the softmax of its queries without a value: `out`
// [t, h, d] shrinks, and `lse` [t, h] grows. In place. Attention's backward pass with these two
// gives the gradients of queries, keys and values.
void add_sinks(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& sinks);

// Adds the gradient of the scores to `gradient` [h]: with p the share of a sink in a softmax, a
// query adds -p (d_out . out). `out` and `lse` are those that add_sinks() left.
void add_sink_gradient(const at::Tensor& gradient, const at::Tensor& d_out, const at::Tensor& out,
                       const at::Tensor& lse, const at::Tensor& sinks);

}  // namespace ringshard::attention
