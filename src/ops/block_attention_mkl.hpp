#pragma once

#include "block_gemm.hpp"
#include "ringshard/ops/block_attention.hpp"

namespace ringshard::ops {

// block_attention_backward() of bf16 by MKL's products of matrices, where has_block_products().
void attend_backward_with_mkl(const AttentionInput& input, const at::Tensor& d_out,
                              const at::Tensor& out, const at::Tensor& lse,
                              const AttentionGradients& gradients);

}  // namespace ringshard::ops
