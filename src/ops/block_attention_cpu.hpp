#pragma once

#include "kernel_choice.hpp"
#include "ringshard/ops/block_attention.hpp"

namespace ringshard::ops {

// block_attention() and block_attention_backward() by kernels of the caller's choice.
void attend_with(const AttentionKernels& kernels, const AttentionInput& input,
                 const at::Tensor& out, const at::Tensor& lse);
void attend_backward_with(const AttentionKernels& kernels, const AttentionInput& input,
                          const at::Tensor& d_out, const at::Tensor& out, const at::Tensor& lse,
                          const AttentionGradients& gradients);

}  // namespace ringshard::ops
