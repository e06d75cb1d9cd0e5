#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "block.hpp"
#include "block_context.hpp"
#include "ringshard/base/error.hpp"
#include "rows_before_a_branch.hpp"

// Blocks whose experts a rank gathers in slices.
namespace ringshard::model {

using shard::UnitTensors;

namespace {

// Calls `work` with each slice and the tensors of the block and this slice, which are gathered.
template <class Work>
void for_slices(const ExpertSlices& slices, const UnitTensors& weights, Work work) {
    const int64_t count = std::ssize(slices.sets);
    for (int64_t number = 0; number < count; ++number) {
        const UnitSet& set = slices.sets[static_cast<size_t>(number)];
        work(Slice{number, count}, set, weights.joined(set.weights()));
        set.release(slices.next_use);
    }
}

}  // namespace

std::vector<Block::SlicedTurn> Block::sliced_turns(const BlockContext& context, int64_t tokens,
                                                   bool is_whole, RowNorms& norms) const {
    if (is_whole) return {{0, tokens, context.mlp()}};
    std::vector<SlicedTurn> turns;
    for (int64_t begin = 0; begin < tokens; begin += context.mlp_chunk) {
        const int64_t length = std::min(tokens - begin, context.mlp_chunk);
        turns.push_back({begin, length, context.mlp({begin, length, length}, norms)});
    }
    return turns;
}

at::Tensor Block::finish_turn(const UnitTensors& weights, SlicedTurn& turn,
                              const at::Tensor& residual, const at::Tensor& into) const {
    const auto& experts = std::get<Experts>(mlp_);
    at::Tensor out = adds_in_product(mlp_norms_, residual)
                         ? experts.finish(turn.context, weights, turn.tokens, residual, into)
                         : experts.finish(turn.context, weights, turn.tokens, {}, {});
    experts.count_choices(turn.context.routers, turn.tokens.inner);
    return add_mlp(weights, std::move(out), residual, into);
}

at::Tensor Block::forward_in_slices(const BlockContext& context, const UnitTensors& weights,
                                    Saved& saved, const at::Tensor& addend) const {
    const auto& experts = std::get<Experts>(mlp_);
    const at::Tensor& residual = saved[attention_residual_];
    const bool keeps_inner = gate_up_.is_kept(context.policy);
    RowNorms norms;
    std::vector<SlicedTurn> turns = sliced_turns(context, residual.size(0), keeps_inner, norms);
    for (SlicedTurn& turn : turns) {
        auto [x, inverse_rms] = normed_for_mlp(context.branch_type, weights,
                                               turn.of(mlp_input(saved)), turn.of(addend));
        turn.inverse_rms = std::move(inverse_rms);
        turn.tokens = experts.begin(turn.context, weights, x);
    }
    for_slices(context.slices, weights,
               [&](const Slice& slice, const UnitSet&, const UnitTensors& of_slice) {
                   for (SlicedTurn& turn : turns)
                       experts.add_slice(turn.context, of_slice, slice, turn.tokens);
               });
    if (keeps_inner) {
        SlicedTurn& whole = turns.front();
        at::Tensor output = finish_turn(weights, whole, residual, {});
        keep_inner(context, whole.tokens.x, whole.inverse_rms, whole.tokens.inner, saved);
        return output;
    }
    at::Tensor output = at::empty_like(residual);
    for (SlicedTurn& turn : turns) {
        finish_turn(weights, turn, turn.of(residual), turn.of(output));
        turn.tokens = {};
    }
    return output;
}

void Block::backward_in_slices(const BlockContext& context, const UnitTensors& weights,
                               const UnitTensors& gradients, const at::Tensor& gradient,
                               const Saved& saved, const at::Tensor& addend) const {
    RINGSHARD_CHECK(!mlp_norms_.behind, "no norm is behind experts in slices");
    const auto& experts = std::get<Experts>(mlp_);
    const at::Tensor& input = mlp_input(saved);
    const auto& before = before_mlp();
    const bool was_kept = saved[gate_up_].defined();
    RowNorms norms;
    std::vector<SlicedTurn> turns = sliced_turns(context, input.size(0), was_kept, norms);
    for (SlicedTurn& turn : turns) {
        if (was_kept) {
            turn.inverse_rms = saved[mlp_inverse_rms_];
            turn.tokens = experts.begin(normed_again(before, context.branch_type, weights, input,
                                                     turn.inverse_rms, saved[mlp_normed_], false),
                                        kept_inner(saved));
        } else {
            auto [x, inverse_rms] =
                normed_for_mlp(context.branch_type, weights, turn.of(input), turn.of(addend));
            turn.inverse_rms = std::move(inverse_rms);
            turn.tokens = experts.begin(turn.context, weights, x);
        }
        experts.begin_backward(turn.tokens,
                               branch_gradient(context.branch_type, turn.of(gradient)));
    }
    for_slices(context.slices, weights,
               [&](const Slice& slice, const UnitSet& set, const UnitTensors& of_slice) {
                   const UnitTensors sums = gradients.joined(set.gradients());
                   for (SlicedTurn& turn : turns)
                       experts.slice_backward(turn.context, of_slice, sums, slice, turn.tokens);
                   set.reduce();
               });
    for (SlicedTurn& turn : turns) {
        const at::Tensor dx =
            experts.finish_backward(turn.context, weights, gradients, turn.tokens);
        turn.tokens = {};
        add_gradient_before(before, weights, gradients, dx, turn.of(input), turn.inverse_rms,
                            turn.of(gradient), false);
    }
}

}  // namespace ringshard::model
