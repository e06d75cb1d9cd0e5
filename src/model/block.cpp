#include "block.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "parts/attention.hpp"
#include "parts/delta_net.hpp"
#include "parts/mamba.hpp"
#include "ringshard/ops/linear.hpp"
#include "rows_before_a_branch.hpp"

namespace ringshard::model {

using config::ActivationPolicy;
using shard::UnitTensors;

namespace {

std::optional<Norm> norm_if_named(shard::UnitLayout& unit, const BlockSpec& block,
                                  const std::string& name) {
    if (name.empty()) return std::nullopt;
    return Norm(unit, {name, block.width, block.norm});
}

// Returns rows of the residual stream in the type of the branches.
at::Tensor in_type(const BranchType& type, const at::Tensor& rows) {
    return type ? rows.to(*type) : rows;
}

// Returns the rows with which a branch begins.
ops::RmsNormed normed_rows(const std::optional<Norm>& norm, const BranchType& type,
                           const UnitTensors& weights, const at::Tensor& x) {
    if (!norm) return {in_type(type, x), {}};
    auto [y, inverse_rms] = norm->forward(weights, x);
    return {in_type(type, y), std::move(inverse_rms)};
}

// Returns the gradient of the input of a post-norm, from that of its result.
at::Tensor behind_backward(const Norm& norm, const UnitTensors& weights,
                           const UnitTensors& gradients, const at::Tensor& dy,
                           const at::Tensor& x) {
    at::Tensor dx = at::zeros_like(x);
    norm.backward(weights, gradients, dy, x, norm.forward(weights, x).inverse_rms, dx);
    return dx;
}

std::unique_ptr<const Mixer> make_mixer(shard::UnitLayout& unit, SavedLayout& slots,
                                        const BlockSpec& spec) {
    if (spec.delta_net) return std::make_unique<const DeltaNet>(unit, slots, spec);
    if (spec.mamba) return std::make_unique<const Mamba>(unit, slots, spec);
    return std::make_unique<const Attention>(unit, slots, spec);
}

std::variant<Mlp, Experts> mlp_of(shard::UnitLayout& unit, const BlockSpec& spec) {
    if (spec.experts) return Experts(unit, spec);
    return Mlp(unit, spec, spec.mlp);
}

// Turns beyond the tokens have empty ranges: ranks that share experts take equally many turns.
template <class Work>
void for_turns(int64_t tokens, const BlockContext& context, Work work) {
    const int64_t most = std::max(tokens, context.experts.most_tokens);
    for (int64_t begin = 0; begin < most; begin += context.mlp_chunk)
        work(Turn{std::min(begin, tokens),
                  std::clamp<int64_t>(tokens - begin, 0, context.mlp_chunk),
                  std::min(most - begin, context.mlp_chunk)});
}

}  // namespace

at::Tensor normed_again(const std::optional<Norm>& norm, const BranchType& type,
                        const UnitTensors& weights, const at::Tensor& x,
                        const at::Tensor& inverse_rms, const at::Tensor& kept, bool makes_last) {
    if (kept.defined()) return kept;
    if (!norm) return in_type(type, x);
    if (makes_last && norm->can_make_rows()) return {};
    return in_type(type, norm->again(weights, x, inverse_rms));
}

void add_gradient_before(const std::optional<Norm>& norm, const UnitTensors& weights,
                         const UnitTensors& gradients, const at::Tensor& dx, const at::Tensor& x,
                         const at::Tensor& inverse_rms, const at::Tensor& gradient,
                         bool makes_rows) {
    if (norm)
        norm->backward(weights, gradients, dx, x, inverse_rms, gradient, makes_rows);
    else
        ops::add_into(dx, gradient, gradient);
}

Block::BranchNorms::BranchNorms(shard::UnitLayout& unit, const BlockSpec& block,
                                const BranchNormSpec& spec)
    : before(norm_if_named(unit, block, spec.before)),
      behind(norm_if_named(unit, block, spec.behind)) {}

Block::Block(shard::UnitLayout& unit, const BlockSpec& spec)
    : is_parallel_(spec.is_parallel),
      residual_multiplier_(spec.residual_multiplier),
      attention_norms_(unit, spec, spec.attention_norms),
      mlp_norms_(unit, spec, spec.mlp_norms),
      input_(slots_.add(ActivationPolicy::input)),
      attention_inverse_rms_(slots_.add(ActivationPolicy::all_but_gate_up)),
      attention_normed_(slots_.add(ActivationPolicy::everything)),
      mixer_(make_mixer(unit, slots_, spec)),
      attention_out_(slots_.add(ActivationPolicy::all_but_gate_up)),
      attention_residual_(slots_.add(ActivationPolicy::all_but_gate_up)),
      mlp_(mlp_of(unit, spec)),
      mlp_inverse_rms_(slots_.add(ActivationPolicy::all)),
      mlp_normed_(slots_.add(ActivationPolicy::everything)),
      gate_up_(slots_.add(ActivationPolicy::all)),
      probabilities_(slots_.add(ActivationPolicy::all)),
      experts_(slots_.add(ActivationPolicy::all)),
      arrivals_(slots_.add(ActivationPolicy::all)),
      shared_(slots_.add(ActivationPolicy::all)),
      shared_gate_(slots_.add(ActivationPolicy::all)),
      product_(slots_.add(ActivationPolicy::everything)),
      mlp_out_(slots_.add(ActivationPolicy::all)) {}

Saved Block::begin(const at::Tensor& input) const {
    Saved saved = slots_.make();
    saved[input_] = input;
    return saved;
}

at::Tensor Block::forward(const BlockContext& context, const UnitTensors& weights,
                          Saved& saved) const {
    const at::Tensor addend = complete(context, weights, saved);
    at::Tensor output = mlp_forward(context, weights, saved, addend);
    slots_.drop(saved, context.policy);
    return output;
}

void Block::backward(const BlockContext& context, const UnitTensors& weights,
                     const UnitTensors& gradients, const at::Tensor& gradient, Saved saved) const {
    const at::Tensor addend = complete(context, weights, saved);
    // In a parallel block the output's gradient is that of both branches.
    const at::Tensor d_output = is_parallel_ ? gradient.clone() : gradient;
    mlp_backward(context, weights, gradients, gradient, saved, addend);
    for (const SavedSlot& slot : {mlp_normed_, gate_up_, probabilities_, experts_, arrivals_,
                                  shared_, shared_gate_, product_, mlp_out_, attention_residual_})
        saved[slot].reset();
    attention_backward(context, weights, gradients, branch_gradient(context.branch_type, d_output),
                       gradient, saved);
}

bool Block::adds_in_product(const BranchNorms& norms, const at::Tensor& rows) const {
    return !norms.behind && residual_multiplier_ == 1 && ops::products_add(rows);
}

at::Tensor Block::add_branch(at::Tensor branch, const at::Tensor& residual,
                             const at::Tensor& into) const {
    if (residual_multiplier_ != 1) branch.mul_(residual_multiplier_);
    return ops::add_into(std::move(branch), residual, into);
}

at::Tensor Block::branch_gradient(const BranchType& type, const at::Tensor& gradient) const {
    return in_type(type, residual_multiplier_ == 1 ? gradient : gradient * residual_multiplier_);
}

at::Tensor Block::complete(const BlockContext& context, const UnitTensors& weights,
                           Saved& saved) const {
    const at::Tensor& input = saved[input_];
    if (!mixer_->is_projected(saved)) {
        const ops::RmsNormed normed =
            normed_rows(attention_norms_.before, context.branch_type, weights, input);
        saved[attention_inverse_rms_] = normed.inverse_rms;
        if (attention_norms_.before && attention_normed_.is_kept(context.policy))
            saved[attention_normed_] = normed.y;
        mixer_->project(context, weights, normed.y, saved);
    }
    mixer_->mix(context, weights, saved);
    if (saved[attention_residual_].defined()) return {};
    if (adds_in_product(attention_norms_, input)) {
        saved[attention_residual_] = mixer_->output(context, weights, saved, input);
        return {};
    }
    at::Tensor out = mixer_->output(context, weights, saved, {});
    if (attention_norms_.behind) {
        saved[attention_out_] = out;
        out = attention_norms_.behind->forward(weights, out).y;
    }
    if (norms_the_sum() && out.scalar_type() == input.scalar_type()) {
        saved[attention_residual_] = out;
        return input;
    }
    saved[attention_residual_] = add_branch(std::move(out), input);
    return {};
}

void Block::attention_backward(const BlockContext& context, const UnitTensors& weights,
                               const UnitTensors& gradients, const at::Tensor& d_branch,
                               const at::Tensor& gradient, const Saved& saved) const {
    const at::Tensor& input = saved[input_];
    const auto& [before, behind] = attention_norms_;
    const at::Tensor d_rows = mixer_->output_backward(
        context, weights, gradients,
        behind ? behind_backward(*behind, weights, gradients, d_branch, saved[attention_out_])
               : d_branch,
        saved);
    const at::Tensor& inverse_rms = saved[attention_inverse_rms_];
    const at::Tensor x = normed_again(before, context.branch_type, weights, input, inverse_rms,
                                      saved[attention_normed_], mixer_->adds_gradients_last());
    const at::Tensor dx = mixer_->project_backward(context, weights, gradients, d_rows, x);
    const bool makes_rows = !x.defined();
    add_gradient_before(before, weights, gradients, dx, input, inverse_rms, gradient, makes_rows);
    if (makes_rows) mixer_->add_project_gradients(context, weights, gradients, d_rows, dx);
}

MlpInner Block::inner_of_mlp(const MlpContext& context, const UnitTensors& weights,
                             const at::Tensor& x) const {
    return std::visit([&](const auto& mlp) { return mlp.inner(context, weights, x); }, mlp_);
}

MlpOutput Block::forward_of_mlp(const MlpContext& context, const UnitTensors& weights,
                                const at::Tensor& x, const at::Tensor& addend,
                                const at::Tensor& into) const {
    return std::visit(
        [&](const auto& mlp) { return mlp.forward(context, weights, x, addend, into); }, mlp_);
}

at::Tensor Block::add_mlp(const UnitTensors& weights, at::Tensor out, const at::Tensor& residual,
                          const at::Tensor& into) const {
    if (adds_in_product(mlp_norms_, residual)) return out;
    if (mlp_norms_.behind) out = mlp_norms_.behind->forward(weights, out).y;
    return add_branch(std::move(out), residual, into);
}

ops::RmsNormed Block::normed_for_mlp(const BranchType& type, const UnitTensors& weights,
                                     const at::Tensor& input, const at::Tensor& addend) const {
    const auto& before = before_mlp();
    if (addend.defined()) return before->add_forward(weights, input, residual_multiplier_, addend);
    return normed_rows(before, type, weights, input);
}

Block::MlpChunk Block::make_chunk(const MlpContext& context, const UnitTensors& weights,
                                  const at::Tensor& input, const at::Tensor& addend,
                                  const at::Tensor& residual, const at::Tensor& into) const {
    auto [x, inverse_rms] = normed_for_mlp(context.branch_type, weights, input, addend);
    auto [inner, out] = adds_in_product(mlp_norms_, residual)
                            ? forward_of_mlp(context, weights, x, residual, into)
                            : forward_of_mlp(context, weights, x);
    std::visit([&](const auto& mlp) { mlp.count_choices(context.routers, inner); }, mlp_);
    return {std::move(x), std::move(inverse_rms), std::move(inner), std::move(out)};
}

// Only a norm behind the MLP needs its output again.
Block::MlpChunk Block::make_chunk_again(MlpContext context, const UnitTensors& weights,
                                        const at::Tensor& input, const at::Tensor& addend) const {
    auto [x, inverse_rms] = normed_for_mlp(context.branch_type, weights, input, addend);
    if (!mlp_norms_.behind) {
        MlpInner inner = inner_of_mlp(context, weights, x);
        return {std::move(x), std::move(inverse_rms), std::move(inner)};
    }
    context.keeps_inner = true;
    auto [inner, out] = forward_of_mlp(context, weights, x);
    return {std::move(x), std::move(inverse_rms), std::move(inner), std::move(out)};
}

at::Tensor Block::mlp_forward(const BlockContext& context, const UnitTensors& weights, Saved& saved,
                              const at::Tensor& addend) const {
    if (!context.slices.sets.empty()) return forward_in_slices(context, weights, saved, addend);
    const at::Tensor& input = mlp_input(saved);
    const at::Tensor& residual = saved[attention_residual_];
    if (gate_up_.is_kept(context.policy)) {
        MlpContext of_all = context.mlp();
        of_all.keeps_product = product_.is_kept(context.policy);
        MlpChunk whole = make_chunk(of_all, weights, input, addend, residual, {});
        keep_inner(context, whole.x, whole.inverse_rms, whole.inner, saved);
        if (mlp_norms_.behind) saved[mlp_out_] = whole.out;
        return add_mlp(weights, std::move(whole.out), residual, {});
    }
    at::Tensor output = at::empty_like(residual);
    RowNorms norms;
    for_turns(residual.size(0), context, [&](const Turn& turn) {
        const auto chunk_of = [&](const at::Tensor& rows) {
            return rows.defined() ? rows.narrow(0, turn.begin, turn.length) : rows;
        };
        const MlpContext of_turn = context.mlp(turn, norms);
        const at::Tensor of_residual = chunk_of(residual);
        const at::Tensor into = chunk_of(output);
        at::Tensor out =
            make_chunk(of_turn, weights, chunk_of(input), chunk_of(addend), of_residual, into).out;
        add_mlp(weights, std::move(out), of_residual, into);
    });
    return output;
}

void Block::keep_inner(const BlockContext& context, const at::Tensor& x,
                       const at::Tensor& inverse_rms, const MlpInner& inner, Saved& saved) const {
    if (before_mlp() && mlp_normed_.is_kept(context.policy)) saved[mlp_normed_] = x;
    saved[mlp_inverse_rms_] = inverse_rms;
    saved[gate_up_] = inner.gate_up;
    saved[probabilities_] = inner.probabilities;
    saved[experts_] = inner.experts;
    saved[arrivals_] = inner.arrivals;
    saved[shared_] = inner.shared;
    saved[shared_gate_] = inner.shared_gate;
    saved[product_] = inner.product;
}

MlpInner Block::kept_inner(const Saved& saved) const {
    return {saved[gate_up_], saved[probabilities_], saved[experts_], saved[arrivals_],
            saved[shared_],  saved[shared_gate_],   saved[product_]};
}

void Block::mlp_backward(const BlockContext& context, const UnitTensors& weights,
                         const UnitTensors& gradients, const at::Tensor& gradient,
                         const Saved& saved, const at::Tensor& addend) const {
    if (!context.slices.sets.empty())
        return backward_in_slices(context, weights, gradients, gradient, saved, addend);
    const at::Tensor& input = mlp_input(saved);
    if (saved[gate_up_].defined()) {
        const at::Tensor& inverse_rms = saved[mlp_inverse_rms_];
        const auto& before = before_mlp();
        const Mlp* const mlp = std::get_if<Mlp>(&mlp_);
        const MlpChunk whole{
            normed_again(before, context.branch_type, weights, input, inverse_rms,
                         saved[mlp_normed_], mlp != nullptr && mlp->adds_gradients_last()),
            inverse_rms, kept_inner(saved), saved[mlp_out_]};
        return chunk_backward(context.mlp(), weights, gradients, input, whole, gradient);
    }
    RowNorms norms;
    for_turns(input.size(0), context, [&](const Turn& turn) {
        const auto chunk_of = [&](const at::Tensor& rows) {
            return rows.defined() ? rows.narrow(0, turn.begin, turn.length) : rows;
        };
        const at::Tensor of_chunk = chunk_of(input);
        const MlpContext mlp = context.mlp(turn, norms);
        chunk_backward(mlp, weights, gradients, of_chunk,
                       make_chunk_again(mlp, weights, of_chunk, chunk_of(addend)),
                       chunk_of(gradient));
    });
}

void Block::chunk_backward(const MlpContext& context, const UnitTensors& weights,
                           const UnitTensors& gradients, const at::Tensor& input,
                           const MlpChunk& chunk, const at::Tensor& gradient) const {
    const auto& behind = mlp_norms_.behind;
    at::Tensor dy = branch_gradient(context.branch_type, gradient);
    if (behind) dy = behind_backward(*behind, weights, gradients, dy, chunk.out);
    const at::Tensor dx = std::visit(
        [&](const auto& mlp) {
            return mlp.backward(context, weights, gradients, dy, chunk.inner, chunk.x);
        },
        mlp_);
    const bool makes_rows = !chunk.x.defined();
    add_gradient_before(before_mlp(), weights, gradients, dx, input, chunk.inverse_rms, gradient,
                        makes_rows);
    if (makes_rows)
        std::get<Mlp>(mlp_).add_inner_gradients(context, weights, gradients, chunk.inner, dx);
}

std::vector<ProductUse> Block::products(ActivationPolicy policy) const {
    std::vector<ProductUse> all = mixer_->products(policy, attention_residual_.is_kept(policy));
    // The product that the block ends with is made again for a norm behind it alone.
    const bool is_made_again = !gate_up_.is_kept(policy);
    const MadeAgain again{is_made_again, is_made_again && mlp_norms_.behind};
    std::visit([&](const auto& mlp) { mlp.add_products(again, all); }, mlp_);
    return all;
}

Operations Block::operations(ActivationPolicy policy) const {
    Operations operations{.of_pair = mixer_->pairs(policy)};
    for (const ProductUse& product : products(policy)) {
        const double again = product.is_made_again ? product.operations : 0;
        operations.products += product.operations;
        operations.products_again += again;
        operations.by_product[product.name] += {product.operations, again};
    }
    return operations;
}

std::vector<const Projection*> Block::projections() const {
    std::vector<const Projection*> all = mixer_->projections();
    std::visit(
        [&](const auto& mlp) {
            for (const Projection* projection : mlp.projections()) all.push_back(projection);
        },
        mlp_);
    return all;
}

std::vector<WeightUse> Block::weights() const {
    std::vector<WeightUse> all;
    for (const Projection* projection : projections())
        all.push_back({projection->shape(), projection->weight()});
    std::visit(
        [&](const auto& mlp) {
            for (const WeightUse& use : mlp.other_weights()) all.push_back(use);
        },
        mlp_);
    return all;
}

}  // namespace ringshard::model
