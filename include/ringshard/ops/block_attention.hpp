#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/band.hpp"
#include "ringshard/ops/score_form.hpp"

// Attention within documents of one length, in blocks of queries and keys that stay in the
// processor's cache, with the widest products that the processor has: those of bf16 where it has
// them. Blocks of keys outside the band of a query are not multiplied.
//
// Dimensions: n documents, t tokens of one, h query heads, g key heads (h is a multiple of g), d
// head_dim. Tensors are views [n, t, h, d] with dense heads; queries and keys may differ in t.
namespace ringshard::ops {

struct AttentionInput {
    at::Tensor q;  // [n, t, h, d]
    at::Tensor k;  // [n, t, g, d]
    at::Tensor v;
    Band band;
    ScoreForm form{};
};

// Writes `out` [n, t, h, d], of q's type or fp32, and `lse` [n, t, h], fp32: the log of the sum of
// exponentials. Both may be views.
void block_attention(const AttentionInput& input, const at::Tensor& out, const at::Tensor& lse);

// False for fewer documents and key heads than threads, unless the band is narrow.
bool suits_block_attention_backward(const AttentionInput& input);

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
