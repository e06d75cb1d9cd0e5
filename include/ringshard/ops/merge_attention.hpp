#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// The attention of queries to some of the keys. Dimensions: n documents, t queries of one, h heads,
// d head_dim.
struct SeenKeys {
    at::Tensor out;  // [n, t, h, d]
    at::Tensor lse;  // [n, t, h], fp32: the log of the sum of exponentials
};

// Merges the attention to other keys into it. Rows of `seen` may lie apart, its heads are dense,
// and it is fp32.
void merge_attention(const SeenKeys& seen, const SeenKeys& more);

}  // namespace ringshard::ops
