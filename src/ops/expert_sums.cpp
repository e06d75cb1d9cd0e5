#include "ringshard/ops/expert_sums.hpp"

#include <ATen/ops/full.h>

#include "groups.hpp"

namespace ringshard::ops {

at::Tensor no_sums_of_experts(const at::Tensor& x) {
    return at::full(x.sizes(), -0.0, x.options().dtype(at::kFloat));
}

// A token has one row of an expert, so that the order of the additions within a call of LibTorch's
// operator does not matter.
void add_rows_of_experts(const at::Tensor& sums, const at::Tensor& rows, const at::Tensor& tokens,
                         const std::vector<int64_t>& counts) {
    for_groups(counts, [&](int64_t, int64_t begin, int64_t count) {
        at::Tensor into = sums;
        into.index_add_(0, tokens.narrow(0, begin, count),
                        rows.narrow(0, begin, count).to(at::kFloat));
    });
}

}  // namespace ringshard::ops
