#include "ringshard/ops/row_norms.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>

namespace ringshard::ops {

namespace {

// `rows_of` returns some rows of the matrix in fp32; only those of one call are in memory.
template <class RowsOf>
at::Tensor norms_of(const at::Tensor& weight, const RowsOf& rows_of) {
    constexpr int64_t elements_at_once = int64_t{1} << 22;
    const int64_t out = weight.size(0);
    const int64_t rows_at_once = std::max<int64_t>(1, elements_at_once / weight.size(1));
    at::Tensor norms = at::empty({out}, weight.options().dtype(at::kFloat));
    for (int64_t row = 0; row < out; row += rows_at_once) {
        const int64_t count = std::min(rows_at_once, out - row);
        norms.narrow(0, row, count)
            .copy_(at::linalg_vector_norm(rows_of(row, count), 2, at::IntArrayRef{1}));
    }
    return norms;
}

}  // namespace

at::Tensor row_norms(const at::Tensor& weight, const LowRankProduct& update) {
    const at::Tensor a = update.a.to(at::kFloat);
    return norms_of(weight, [&](int64_t row, int64_t count) {
        return at::addmm(weight.narrow(0, row, count).to(at::kFloat),
                         update.b.narrow(0, row, count).to(at::kFloat), a, 1, update.scaling);
    });
}

at::Tensor row_norms(const at::Tensor& weight) {
    return norms_of(weight, [&](int64_t row, int64_t count) {
        return weight.narrow(0, row, count).to(at::kFloat);
    });
}

}  // namespace ringshard::ops
