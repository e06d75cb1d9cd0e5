#pragma once

#include <ATen/core/Tensor.h>

// The backward pass of attention within documents of one length, in blocks of queries and keys that
// stay in the processor's cache: products of matrices, and one pass over each block of weights in
// between. Blocks that no query sees are left out, and bf16 is multiplied as bf16. LibTorch's own
// takes 1.2 times as long in a whole step of 256-token documents in bf16, and 1.1 times as long
// with 1,024 tokens; below 512 keys its bf16 form is no use at all. Forward, LibTorch's is as fast.
//
// Letters: n documents, t tokens of one, h query heads, g key heads (h is a multiple of g), d
// head_dim. Tensors are views [n, t, h, d] with dense heads; queries and keys may differ in t.
namespace ringshard::ops {

struct AttentionInput {
    at::Tensor q;  // [n, t, h, d]
    at::Tensor k;  // [n, t, g, d]
    at::Tensor v;
    bool diagonal;  // query i sees the keys up to i; else all
};

// Is this the way to go here? Not without MKL, and not for fewer documents and key heads than
// threads.
bool suits_block_attention(const AttentionInput& input);

// The gradients of q, k and v. `out` [n, t, h, d] and `lse` [n, t, h], fp32, the log of the sum of
// exponentials, are over all keys there are, which may be more than these. Where `adds`, gradients
// are fp32 and added to; else they are fp32 or of q's type, and written.
struct AttentionGradients {
    at::Tensor dq;  // [n, t, h, d]
    at::Tensor dk;  // [n, t, g, d]
    at::Tensor dv;
    bool adds;
};
void block_attention_backward(const AttentionInput& input, const at::Tensor& d_out,
                              const at::Tensor& out, const at::Tensor& lse,
                              const AttentionGradients& gradients);

}  // namespace ringshard::ops
