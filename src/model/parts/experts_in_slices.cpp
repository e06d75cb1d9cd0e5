#include <ATen/ops/empty.h>

#include <numeric>

#include "experts.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/ops/expert_sums.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/routing.hpp"

// Experts that a rank gathers in slices. Every row has the numbers that it has where all experts
// are there at once, and a token adds them up in the same order.
namespace ringshard::model {

using shard::UnitTensors;

namespace {

// `all`: of the experts of the block. The rows of an adapter come after those of the one before.
SliceRows rows_of(const ops::ExpertRows& rows, const Slice& slice, int64_t all, int64_t adapter) {
    const int64_t experts = all / slice.count;
    const auto begin = rows.counts.begin() + adapter * all + slice.number * experts;
    return {std::accumulate(rows.counts.begin(), begin, int64_t{0}),
            std::accumulate(begin, begin + experts, int64_t{0}),
            slice.number * experts,
            {begin, begin + experts}};
}

// Calls `work` with the rows of each adapter in a slice.
template <class Work>
void for_adapters(const Pass& pass, const UnitTensors& of_slice, const Slice& slice,
                  const ops::ExpertRows& rows, int64_t experts, Work work) {
    for (int64_t adapter = 0; adapter < std::ssize(rows.counts) / experts; ++adapter) {
        const SliceRows here = rows_of(rows, slice, experts, adapter);
        if (here.count > 0)
            work(here, ExpertMlp::Rows{pass.context.projections, of_slice, here.counts,
                                       here.first_expert, static_cast<size_t>(adapter)});
    }
}

// Calls `work` with each slice and the tensors of the block and this slice, which are gathered.
template <class Work>
void for_slices(const Pass& all, Work work) {
    const ExpertSlices& slices = all.context.slices;
    const int64_t count = std::ssize(slices.sets);
    for (int64_t number = 0; number < count; ++number) {
        const UnitSet& set = slices.sets[static_cast<size_t>(number)];
        work(Slice{number, count}, set, all.weights.joined(set.weights()));
        set.release(slices.next_use);
    }
}

}  // namespace

void Experts::forward_in_slices(std::span<TokenChunk> chunks, const Pass& all,
                                const LayerInput& input, const Finish& finish) const {
    std::vector<Sliced> tokens;
    for (TokenChunk& chunk : chunks) {
        const Pass pass = chunk.part_of(all);
        at::Tensor x = input.forward(pass);
        route(pass, x);
        tokens.push_back(begin_slices(pass, std::move(x)));
    }
    for_slices(all, [&](const Slice& slice, const UnitSet&, const UnitTensors& of_slice) {
        for (size_t i = 0; i < chunks.size(); ++i)
            add_slice(chunks[i].part_of(all), of_slice, slice, tokens[i]);
    });
    for (size_t i = 0; i < chunks.size(); ++i) {
        const Pass pass = chunks[i].part_of(all);
        at::Tensor output = finish_slices(pass, tokens[i]);
        end_forward(pass, output);
        tokens[i] = {};
        finish(chunks[i], std::move(output));
    }
}

void Experts::backward_in_slices(std::span<TokenChunk> chunks, const BackwardPass& all,
                                 const LayerInput& input, const Addition& addition) const {
    RINGSHARD_CHECK(!addition.output().reads_rows(), "no norm is behind experts in slices");
    std::vector<Sliced> tokens;
    for (TokenChunk& chunk : chunks) {
        const BackwardPass pass = chunk.part_of(all);
        const bool is_kept = has_inner(pass.saved);
        at::Tensor x = is_kept ? input.again(pass) : input.forward(pass);
        if (!is_kept) route(pass, x);
        Sliced& of_chunk = tokens.emplace_back(begin_slices(pass, std::move(x)));
        of_chunk.dy = addition.backward(pass);
        of_chunk.d_factors =
            at::empty({of_chunk.rows.tokens.size(0)}, of_chunk.dy.options().dtype(at::kFloat));
    }
    for_slices(all, [&](const Slice& slice, const UnitSet& set, const UnitTensors& of_slice) {
        const UnitTensors sums = all.gradients.joined(set.gradients());
        for (size_t i = 0; i < chunks.size(); ++i)
            slice_backward(chunks[i].part_of(all), of_slice, sums, slice, tokens[i]);
        set.reduce();
    });
    for (size_t i = 0; i < chunks.size(); ++i) {
        const BackwardPass pass = chunks[i].part_of(all);
        const at::Tensor dx = finish_backward(pass, tokens[i]);
        tokens[i] = {};
        input.add_gradient(pass, dx);
    }
}

Experts::Sliced Experts::begin_slices(const Pass& pass, at::Tensor x) const {
    ops::ExpertRows rows =
        rows_by_chunk(pass.saved[chosen_], spec_,
                      experts_.tokens_by_adapter(pass.context.projections, x.size(0)));
    at::Tensor factors = row_weights(pass, rows, x.scalar_type());
    at::Tensor sums = ops::no_sums_of_experts(x);
    return {std::move(x), std::move(rows), std::move(factors), std::move(sums)};
}

void Experts::add_slice(const Pass& pass, const UnitTensors& of_slice, const Slice& slice,
                        Sliced& tokens) const {
    at::Tensor& all = pass.saved[gate_up_];
    const bool is_kept = gate_up_.is_kept(pass.context.policy);
    if (is_kept && slice.number == 0)
        all = at::empty({tokens.rows.tokens.size(0), spec_.inner_width()}, tokens.x.options());
    for_adapters(pass, of_slice, slice, tokens.rows, spec_.count,
                 [&](const SliceRows& here, const ExpertMlp::Rows& rows) {
                     const at::Tensor of_rows = here.of(tokens.rows.tokens);
                     const at::Tensor gate_up =
                         experts_.inner(rows, ops::take_rows(tokens.x, of_rows));
                     if (is_kept) here.of(all).copy_(gate_up);
                     ops::add_rows_of_experts(
                         tokens.sums, experts_.output(rows, gate_up, here.of(tokens.factors)),
                         of_rows, here.counts);
                 });
}

at::Tensor Experts::finish_slices(const Pass& pass, Sliced& tokens) const {
    at::Tensor output = tokens.sums.to(tokens.x.scalar_type());
    tokens.sums.reset();
    make_shared(pass, tokens.x);
    const at::Tensor of_shared = shared_output(pass);
    return shared_ ? output.add_(of_shared) : output;
}

void Experts::slice_backward(const Pass& pass, const UnitTensors& of_slice,
                             const UnitTensors& gradients, const Slice& slice,
                             Sliced& tokens) const {
    for_adapters(pass, of_slice, slice, tokens.rows, spec_.count,
                 [&](const SliceRows& here, const ExpertMlp::Rows& rows) {
                     rows_backward(pass, gradients, here, rows, tokens);
                 });
}

void Experts::rows_backward(const Pass& pass, const UnitTensors& gradients, const SliceRows& here,
                            const ExpertMlp::Rows& rows, Sliced& tokens) const {
    const at::Tensor of_rows = here.of(tokens.rows.tokens);
    const bool makes_inner = !pass.saved.has(gate_up_);
    at::Tensor x_rows;
    at::Tensor gate_up;  // that of its gradient after backward_output()
    if (makes_inner) {
        x_rows = ops::take_rows(tokens.x, of_rows);
        gate_up = experts_.inner(rows, x_rows);
    } else {
        gate_up = here.of(pass.saved[gate_up_]);
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

at::Tensor Experts::finish_backward(const BackwardPass& pass, Sliced& tokens) const {
    if (shared_ && !shared_->has_inner(pass.saved)) make_shared(pass, tokens.x);
    const at::Tensor dx_of_shared = shared_backward(pass, tokens.dy, tokens.x);
    const at::Tensor dx_of_router = router_backward(pass, tokens.d_factors, tokens.rows, tokens.x);
    at::Tensor dx = tokens.sums.to(tokens.x.scalar_type());
    tokens.sums.reset();
    if (shared_) dx.add_(dx_of_shared);
    add_router_gradient(pass, dx_of_router, dx);
    return dx;
}

}  // namespace ringshard::model
