#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// Rows of the table [vocabulary, w] for tokens [t] int64.
at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table);

// d_table [vocabulary, w] fp32 += the rows of dy [t, w] at their tokens, always added in the same
// order.
void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& d_table);

}  // namespace ringshard::ops
