#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ringshard::ops {

// Rotary positions of the first r elements of every head: element i turns together with element
// i + r / 2, or, where the pairs are interleaved, element 2 i with element 2 i + 1.
struct RopeTable {
    at::Tensor cosine;  // [t, r / 2], fp32
    at::Tensor sine;
    int64_t head_dim = 0;  // 0: r
    bool is_interleaved = false;

    int64_t head_width() const { return head_dim > 0 ? head_dim : 2 * cosine.size(1); }
};
// inverse_frequencies [r / 2], fp32; positions [t], int64.
RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                          double scale);

enum class Turn { forward, backward };  // the backward pass turns the other way

// Turns the first num_heads heads of every row, in place. heads: [t, at least num_heads *
// head_dim].
void rope(const at::Tensor& heads, int64_t num_heads, const RopeTable& table, Turn turn);

}  // namespace ringshard::ops
