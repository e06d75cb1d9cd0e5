#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ringshard/ops/rope.hpp"

namespace ringshard::ops {

// Gradients of queries, keys and values as an operator of attention returns them, [n, t, heads, d]
// and dense in d alone, and the rows of which they become a part: queries, keys, values.
struct HeadGradientRows {
    at::Tensor dq;
    at::Tensor dk;
    at::Tensor dv;
    at::Tensor into;  // [rows, (h + 2 g) d]
    // Token [i, j] is row first_row + i * row_distance + j.
    int64_t first_row;
    int64_t row_distance;
    const RopeTable* rope = nullptr;  // [rows]: turns queries and keys back
    at::Tensor d_bias{};  // [(h + 2 g) d] fp32, is added to; undefined: there is no such bias
};
// In one pass, where the heads suit the kernel. In builds with CUDA, by the GPU's kernels.
void put_head_gradients(const HeadGradientRows& work);

}  // namespace ringshard::ops
