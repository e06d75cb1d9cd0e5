#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

// The sums of sum_of_experts(), a few experts at a time.
namespace ringshard::ops {

// Returns sums [t, width] fp32 of nothing, for tokens like x [t, width]. They are -0, to which
// every number adds exactly.
at::Tensor no_sums_of_experts(const at::Tensor& x);

// Adds the rows of some experts [n, width] to the sums of their tokens. tokens [n], counts: of
// these rows, as ExpertRows has them. After all experts, in their order, the sums are those of
// sum_of_experts() before it rounds them.
void add_rows_of_experts(const at::Tensor& sums, const at::Tensor& rows, const at::Tensor& tokens,
                         const std::vector<int64_t>& counts);

}  // namespace ringshard::ops
