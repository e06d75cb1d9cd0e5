#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// The matrices of a low-rank adapter, and the factor of their product.
struct LowRankProduct {
    at::Tensor b;  // [out, r]
    at::Tensor a;  // [r, in]
    double scaling;
};

// Returns the norms [out] (fp32) of the rows of weight + scaling x B A. weight [out, in].
at::Tensor row_norms(const at::Tensor& weight, const LowRankProduct& update);

// Returns the norms [out] (fp32) of the rows of a matrix [out, in].
at::Tensor row_norms(const at::Tensor& weight);

}  // namespace ringshard::ops
