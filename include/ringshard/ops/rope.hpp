#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// Rotary positions: element i of a head turns together with element i + head_dim / 2.
struct RopeTable {
    at::Tensor cosine;  // [t, head_dim / 2], fp32
    at::Tensor sine;
};
// inverse_frequencies [head_dim / 2], fp32; positions [t], int64.
RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                          double scale);

enum class Turn { forward, backward };  // the backward pass turns the other way

// Turns the first num_heads heads of every row, in place. heads: [t, at least num_heads *
// head_dim].
void rope(const at::Tensor& heads, int64_t num_heads, const RopeTable& table, Turn turn);

}  // namespace ringshard::ops
