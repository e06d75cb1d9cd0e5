#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/band.hpp"
#include "ringshard/ops/merge_attention.hpp"
#include "ringshard/ops/score_form.hpp"

// Attention as products of matrices in fp32, over blocks of queries, on any device: exact, and
// slower than the kernels for bf16. It is the way of fp32 on GPUs, whose kernels have no
// such type. Dimensions: n documents, t tokens of one, h query heads, g key heads (h is a multiple
// of g), d head_dim.
namespace ringshard::ops {

struct PlainAttention {
    at::Tensor q;  // [n, t, h, d]; views
    at::Tensor k;  // [n, t, g, d]
    at::Tensor v;
    Band band;
    ScoreForm form{};
};
// Both are of the type of q.
SeenKeys plain_attention(const PlainAttention& input);

struct PlainGradients {
    at::Tensor dq;  // fp32, [n, t, h, d]
    at::Tensor dk;  // [n, t, g, d]
    at::Tensor dv;
};
// `whole` is over all keys there are, which may be more than these.
PlainGradients plain_attention_backward(const PlainAttention& input, const at::Tensor& d_out,
                                        const SeenKeys& whole);

}  // namespace ringshard::ops
