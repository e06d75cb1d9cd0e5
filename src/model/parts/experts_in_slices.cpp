#include <ATen/ops/empty.h>

#include <numeric>

#include "experts.hpp"
#include "ringshard/ops/expert_sums.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/routing.hpp"

// Experts that a rank gathers in slices. Every row has the numbers that it has where all experts
// are there at once, and a token adds them up in the same order.
namespace ringshard::model {

namespace {

// The rows of the experts of a slice: side by side, in the order of the experts.
struct SliceRows {
    int64_t first;
    int64_t count;
    int64_t first_expert;
    std::vector<int64_t> counts;

    at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, first, count); }
};

SliceRows rows_of(const ops::ExpertRows& rows, const Slice& slice) {
    const int64_t experts = std::ssize(rows.counts) / slice.count;
    const auto begin = rows.counts.begin() + slice.number * experts;
    return {std::accumulate(rows.counts.begin(), begin, int64_t{0}),
            std::accumulate(begin, begin + experts, int64_t{0}),
            slice.number * experts,
            {begin, begin + experts}};
}

}  // namespace

Experts::Sliced Experts::begin(const MlpContext& context, const shard::UnitTensors& weights,
                               const at::Tensor& x) const {
    return begin(x, routed(context, weights, x));
}

Experts::Sliced Experts::begin(const at::Tensor& x, MlpInner inner) const {
    ops::ExpertRows rows = ops::rows_by_expert(inner.experts, spec_.count, spec_.planned_experts);
    at::Tensor factors = row_weights(inner, rows, x.scalar_type());
    return {x, std::move(inner), std::move(rows), std::move(factors), ops::no_sums_of_experts(x)};
}

void Experts::add_slice(const MlpContext& context, const shard::UnitTensors& weights,
                        const Slice& slice, Sliced& tokens) const {
    at::Tensor& all = tokens.inner.gate_up;
    if (context.keeps_inner && !all.defined())
        all = at::empty({tokens.rows.tokens.size(0), 2 * spec_.intermediate}, tokens.x.options());
    const SliceRows here = rows_of(tokens.rows, slice);
    if (here.count == 0) return;
    const ExpertMlp::Rows rows{context, weights, here.counts, here.first_expert};
    const at::Tensor of_rows = here.of(tokens.rows.tokens);
    const at::Tensor gate_up = experts_.inner(rows, ops::take_rows(tokens.x, of_rows));
    if (context.keeps_inner) here.of(all).copy_(gate_up);
    ops::add_rows_of_experts(tokens.sums, experts_.output(rows, gate_up, here.of(tokens.factors)),
                             of_rows, here.counts);
}

at::Tensor Experts::finish(const MlpContext& context, const shard::UnitTensors& weights,
                           Sliced& tokens, const at::Tensor& addend, const at::Tensor& into) const {
    at::Tensor output = tokens.sums.to(tokens.x.scalar_type());
    tokens.sums.reset();
    add_shared(context, weights, tokens.x, tokens.inner);
    const at::Tensor of_shared = shared_output(context, weights, tokens.inner);
    if (of_shared.defined()) output.add_(of_shared);
    return addend.defined() ? ops::add_into(std::move(output), addend, into) : output;
}

void Experts::begin_backward(Sliced& tokens, const at::Tensor& dy) const {
    tokens.dy = dy;
    tokens.d_factors = at::empty({tokens.rows.tokens.size(0)}, dy.options().dtype(at::kFloat));
}

void Experts::slice_backward(const MlpContext& context, const shard::UnitTensors& weights,
                             const shard::UnitTensors& gradients, const Slice& slice,
                             Sliced& tokens) const {
    const SliceRows here = rows_of(tokens.rows, slice);
    if (here.count == 0) return;
    const ExpertMlp::Rows rows{context, weights, here.counts, here.first_expert};
    const at::Tensor of_rows = here.of(tokens.rows.tokens);
    const bool makes_inner = !tokens.inner.gate_up.defined();
    at::Tensor x_rows;
    at::Tensor gate_up;  // that of its gradient after backward_output()
    if (makes_inner) {
        x_rows = ops::take_rows(tokens.x, of_rows);
        gate_up = experts_.inner(rows, x_rows);
    } else {
        gate_up = here.of(tokens.inner.gate_up);
    }
    at::Tensor dy_rows = ops::take_rows(tokens.dy, of_rows);
    here.of(tokens.d_factors)
        .copy_(
            experts_.backward_output(rows, gradients, dy_rows, here.of(tokens.factors), gate_up));
    dy_rows.reset();
    auto [dx_rows, d_inner] = experts_.backward_inner(rows, gate_up);
    ops::add_rows_of_experts(tokens.sums, dx_rows, of_rows, here.counts);
    dx_rows.reset();
    if (!makes_inner) x_rows = ops::take_rows(tokens.x, of_rows);
    experts_.add_inner_gradients(rows, gradients, gate_up, d_inner, x_rows);
}

at::Tensor Experts::finish_backward(const MlpContext& context, const shard::UnitTensors& weights,
                                    const shard::UnitTensors& gradients, Sliced& tokens) const {
    MlpInner& inner = tokens.inner;
    if (shared_ && !inner.shared.defined()) add_shared(context, weights, tokens.x, inner);
    const at::Tensor dx_of_shared =
        shared_backward(context, weights, gradients, tokens.dy, inner, tokens.x);
    const at::Tensor& places = tokens.rows.places;
    const at::Tensor d_weights = tokens.d_factors.gather(0, places.flatten()).view(places.sizes());
    const at::Tensor dx_of_router =
        router_backward(context, weights, gradients, d_weights, inner, tokens.x);
    at::Tensor dx = tokens.sums.to(tokens.x.scalar_type());
    tokens.sums.reset();
    if (dx_of_shared.defined()) dx.add_(dx_of_shared);
    return dx.add_(dx_of_router);
}

}  // namespace ringshard::model
