#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace ringshard::ops {

// Rows of the table [vocabulary, w] for tokens [t] int64.
at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table);

// d_table [vocabulary, w] fp32 += the rows of dy [t, w] at their tokens, always added in the same
// order. One token may be left out.
void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& d_table,
                        std::optional<int64_t> left_out);

}  // namespace ringshard::ops
