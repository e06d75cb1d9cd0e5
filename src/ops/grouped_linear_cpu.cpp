#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>

#include "backends.hpp"
#include "groups.hpp"

namespace ringshard::ops::cpu {

namespace {

// Libraries have kernels of their own for fewer rows, whose sums have another order.
constexpr int64_t least_rows = 16;

// oneDNN compiles a product for its number of rows, which takes longer than the product, and
// experts have any number. So it gets multiples of this number: at most a sixteenth of
// the rows, or 15, are computed in vain.
int64_t granule_of(const GemmBackend& backend, int64_t rows) {
    if (backend.name() != "onednn") return 1;
    return std::max(least_rows,
                    static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows))) / least_rows);
}

int64_t round_up(int64_t rows, int64_t granule) { return (rows + granule - 1) / granule * granule; }

// Returns a copy of the rows, with zeros behind them.
at::Tensor padded(const at::Tensor& rows, int64_t count) {
    at::Tensor wide = at::empty({count, rows.size(1)}, rows.options());
    wide.narrow(0, 0, rows.size(0)).copy_(rows);
    wide.narrow(0, rows.size(0), count - rows.size(0)).zero_();
    return wide;
}

// Fills the rows of a group, and may write over rows of later groups.
void multiply(GemmBackend& backend, const at::Tensor& y, const at::Tensor& x,
              const at::Tensor& matrix, int64_t begin, int64_t count) {
    const auto multiply_rows = [&](int64_t rows) {
        backend.multiply(y.narrow(0, begin, rows), x.narrow(0, begin, rows), matrix, {});
    };
    const int64_t granule = count < least_rows ? least_rows : granule_of(backend, count);
    if (begin + round_up(count, granule) <= y.size(0))
        return multiply_rows(round_up(count, granule));
    const int64_t rest = count % granule;
    if (rest < count) multiply_rows(count - rest);
    const at::Tensor wide_y = at::empty({granule, y.size(1)}, y.options());
    backend.multiply(wide_y, padded(x.narrow(0, begin + count - rest, rest), granule), matrix, {});
    y.narrow(0, begin + count - rest, rest).copy_(wide_y.narrow(0, 0, rest));
}

}  // namespace

at::Tensor grouped_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weights,
                          const std::vector<int64_t>& counts) {
    at::Tensor y = at::empty({x.size(0), weights.size(1)}, x.options());
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor weight = weights.select(0, group);
        multiply(gemms.backend_of(kind_of(GemmPass::forward, weight, x)), y, x, weight.t(), begin,
                 count);
    });
    return y;
}

at::Tensor grouped_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                         const at::Tensor& weights,
                                         const std::vector<int64_t>& counts) {
    at::Tensor dx = at::empty({dy.size(0), weights.size(2)}, dy.options());
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor weight = weights.select(0, group);
        multiply(gemms.backend_of(kind_of(GemmPass::input_gradient, weight, dy)), dx, dy, weight,
                 begin, count);
    });
    return dx;
}

void add_grouped_weight_gradient(const Gemms& gemms, const at::Tensor& d_weights,
                                 const at::Tensor& dy, const at::Tensor& x,
                                 const std::vector<int64_t>& counts, bool begins) {
    if (begins) begin_empty_groups(d_weights, counts);
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor sum = d_weights.select(0, group);
        GemmBackend& backend = gemms.backend_of(kind_of(GemmPass::weight_gradient, sum, x));
        const int64_t granule = granule_of(backend, count);
        const int64_t rest = count % granule;
        const int64_t even = count - rest;
        const auto add = [&](const at::Tensor& of_dy, const at::Tensor& of_x, bool writes) {
            if (writes)
                backend.write_product(sum, of_dy.t(), of_x);
            else
                backend.add_product(sum, of_dy.t(), of_x);
        };
        if (even > 0) add(dy.narrow(0, begin, even), x.narrow(0, begin, even), begins);
        if (rest > 0)
            add(padded(dy.narrow(0, begin + even, rest), granule),
                padded(x.narrow(0, begin + even, rest), granule), begins && even == 0);
    });
}

ExpertRows rows_by_expert(const at::Tensor& experts, int64_t num_experts, int64_t) {
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
