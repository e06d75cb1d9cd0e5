#pragma once

#include "ringshard/ops/block_attention.hpp"

namespace ringshard::attention {

// What the backward pass of attention takes on a GPU while it runs, in FlashAttention-2 and in
// cuDNN alike: the gradient of the queries is summed in fp32, with a number for each row and head
// beside it; where query heads share a key head, the gradients of keys and values are made for
// every query head and added up after that. Nothing for tensors with numbers: there the operators
// take it.
at::Tensor room_of_gpu_backward(const ops::AttentionInput& input);

}  // namespace ringshard::attention
