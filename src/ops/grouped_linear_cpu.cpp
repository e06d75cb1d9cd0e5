#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "backends.hpp"
#include "groups.hpp"

namespace ringshard::ops::cpu {

namespace {

// Libraries have kernels of their own for fewer rows, whose sums have another order.
constexpr int64_t least_rows = 16;

void multiply(const Gemms& gemms, const GemmKind& kind, const at::Tensor& y, const at::Tensor& x,
              const at::Tensor& matrix) {
    GemmBackend& backend = gemms.backend_of(kind);
    const int64_t rows = x.size(0);
    if (rows >= least_rows) return backend.multiply(y, x, matrix, {});
    const at::Tensor wide_x = at::zeros({least_rows, x.size(1)}, x.options());
    const at::Tensor wide_y = at::empty({least_rows, y.size(1)}, y.options());
    wide_x.narrow(0, 0, rows).copy_(x);
    backend.multiply(wide_y, wide_x, matrix, {});
    y.copy_(wide_y.narrow(0, 0, rows));
}

}  // namespace

at::Tensor grouped_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weights,
                          const std::vector<int64_t>& counts) {
    at::Tensor y = at::empty({x.size(0), weights.size(1)}, x.options());
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor weight = weights.select(0, group);
        multiply(gemms, kind_of(GemmPass::forward, weight, x), y.narrow(0, begin, count),
                 x.narrow(0, begin, count), weight.t());
    });
    return y;
}

at::Tensor grouped_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                         const at::Tensor& weights,
                                         const std::vector<int64_t>& counts) {
    at::Tensor dx = at::empty({dy.size(0), weights.size(2)}, dy.options());
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor weight = weights.select(0, group);
        multiply(gemms, kind_of(GemmPass::input_gradient, weight, dy), dx.narrow(0, begin, count),
                 dy.narrow(0, begin, count), weight);
    });
    return dx;
}

ExpertRows rows_by_expert(const at::Tensor& experts, int64_t num_experts) {
    const int64_t choices = experts.numel();
    const int64_t per_token = experts.size(1);
    ExpertRows rows{at::empty({choices}, experts.options()),
                    at::empty({choices}, experts.options()),
                    at::empty(experts.sizes(), experts.options()),
                    std::vector<int64_t>(static_cast<size_t>(num_experts))};
    const auto* const expert_of = experts.const_data_ptr<int64_t>();
    for (int64_t choice = 0; choice < choices; ++choice)
        ++rows.counts[static_cast<size_t>(expert_of[choice])];
    std::vector<int64_t> next(rows.counts.size());
    for (size_t expert = 1; expert < next.size(); ++expert)
        next[expert] = next[expert - 1] + rows.counts[expert - 1];
    auto* const tokens = rows.tokens.mutable_data_ptr<int64_t>();
    auto* const choice_of = rows.choices.mutable_data_ptr<int64_t>();
    auto* const places = rows.places.mutable_data_ptr<int64_t>();
    for (int64_t choice = 0; choice < choices; ++choice) {
        const int64_t row = next[static_cast<size_t>(expert_of[choice])]++;
        tokens[row] = choice / per_token;
        choice_of[row] = choice;
        places[choice] = row;
    }
    return rows;
}

std::vector<int64_t> counts_on_host(const at::Tensor& counts, const std::vector<int64_t>&) {
    const auto* const first = counts.const_data_ptr<int64_t>();
    return {first, first + counts.numel()};
}

ArrivedRows arrived_rows(const at::Tensor& counts, const std::vector<int64_t>& expected) {
    const int64_t ranks = counts.size(0);
    const int64_t experts = counts.size(1);
    ArrivedRows rows{counts_on_host(counts, expected), {}, {}};
    std::vector<int64_t> begins{0};  // of the rows of each rank and expert
    for (const int64_t count : rows.counts) begins.push_back(begins.back() + count);
    rows.by_expert = at::empty({begins.back()}, counts.options());
    rows.by_rank = at::empty({begins.back()}, counts.options());
    auto* const by_expert = rows.by_expert.mutable_data_ptr<int64_t>();
    auto* const by_rank = rows.by_rank.mutable_data_ptr<int64_t>();
    int64_t place = 0;
    for (int64_t expert = 0; expert < experts; ++expert)
        for (int64_t rank = 0; rank < ranks; ++rank) {
            const auto group = static_cast<size_t>(rank * experts + expert);
            for (int64_t row = begins[group]; row < begins[group + 1]; ++row) {
                by_rank[row] = place;
                by_expert[place++] = row;
            }
        }
    return rows;
}

}  // namespace ringshard::ops::cpu
