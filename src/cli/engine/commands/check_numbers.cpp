#include "check_numbers.hpp"

#include <ATen/ATen.h>

#include <vector>

namespace ringshard::cli {

namespace {

constexpr int64_t values = 4;
constexpr int64_t most_ranks_added = 64;  // their sum is at most 3 x 64

}  // namespace

CheckNumbers::CheckNumbers(int64_t world, at::TensorOptions options)
    : options_(options), period_((world + most_ranks_added - 1) / most_ranks_added) {
    std::vector<int64_t> sums(static_cast<size_t>(period_ * values));
    for (int64_t group = 0; group < period_; ++group)
        for (int64_t value = 0; value < values; ++value)
            for (int64_t rank = (period_ - group) % period_; rank < world; rank += period_)
                sums[static_cast<size_t>(group * values + value)] += (value + rank) % values;
    sums_ = at::tensor(sums, at::kLong).to(options_);
}

at::Tensor CheckNumbers::of_rank(int64_t rank, int64_t first, int64_t count) const {
    const at::Tensor element = at::arange(first, first + count, options_.dtype(at::kLong));
    const at::Tensor group = element.div(values, "floor");
    const at::Tensor is_added = (group + rank).remainder(period_) == 0;
    return ((element + rank).remainder(values) * is_added).to(options_.dtype());
}

at::Tensor CheckNumbers::sum_of_all(int64_t first, int64_t count) const {
    const at::Tensor element = at::arange(first, first + count, options_.dtype(at::kLong));
    const at::Tensor group = element.div(values, "floor").remainder(period_);
    return sums_.index_select(0, group * values + element.remainder(values));
}

}  // namespace ringshard::cli
