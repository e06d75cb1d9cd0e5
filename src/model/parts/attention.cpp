#include "attention.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>

#include "ringshard/base/text.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

ProjectionSpec qkv_of(const BlockSpec& block) {
    const auto& [query_heads, key_heads, head_dim] = block.attention.heads;
    const int64_t keys = key_heads * head_dim;
    const int64_t queries = query_heads * head_dim * (block.attention.is_gated ? 2 : 1);
    ProjectionSpec spec{.layers = {{"self_attn.q_proj", queries},
                                   {"self_attn.k_proj", keys},
                                   {"self_attn.v_proj", keys}},
                        .in = block.width,
                        .has_bias = block.attention.has_bias,
                        .has_biases_apart = block.has_biases_apart,
                        .adapters = block.adapters,
                        .joint = block.joint};
    if (block.attention.is_fused)
        spec.layers = {{block.attention.qkv, block.attention.qkv_width()}};
    return spec;
}

std::vector<HeadNorm> head_norms_of(shard::UnitLayout& unit, SavedLayout& saved,
                                    const BlockSpec& block) {
    const auto& [query_heads, key_heads, head_dim] = block.attention.heads;
    std::vector<HeadNorm> norms;
    const auto add = [&](const std::string& name, int64_t width, ops::HeadRange range) {
        norms.emplace_back(unit, saved, Norm::Spec{name, width, block.norm}, range);
    };
    const HeadNormKind kind = block.attention.head_norm;
    if (kind == HeadNormKind::each_head) {
        add(block.attention.query_norm, head_dim, {0, query_heads});
        add(block.attention.key_norm, head_dim, {query_heads, key_heads});
    } else if (kind == HeadNormKind::all_heads) {
        add(block.attention.query_norm, query_heads * head_dim, {0, 1});
        add(block.attention.key_norm, key_heads * head_dim, {query_heads / key_heads, 1});
    }
    return norms;
}

// A vector that decays as matrices do, as transformers has it.
std::optional<shard::ParameterId> add_sinks(shard::UnitLayout& unit, const AttentionSpec& spec) {
    if (!spec.has_sinks) return std::nullopt;
    return unit.add({.tensors = {{"self_attn.sinks", {spec.heads.query_heads}}}, .decays = true});
}

}  // namespace

Attention::Attention(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block)
    : heads_(block.attention.heads),
      mask_(block.attention.mask),
      qkv_projection_(unit, qkv_of(block)),
      out_(unit, {.layers = {{block.attention.out, block.width}},
                  .in = block.attention.out_width(),
                  .has_bias = block.attention.has_out_bias,
                  .adapters = block.adapters,
                  .joint = block.joint}),
      head_norms_(head_norms_of(unit, saved, block)),
      is_fused_by_heads_(block.attention.is_fused_by_heads),
      norms_rotated_heads_(block.attention.norms_rotated_heads),
      rope_(block.attention.rope),
      is_gated_(block.attention.is_gated),
      sinks_(add_sinks(unit, block.attention)),
      qkv_(saved.add(ActivationPolicy::all_but_gate_up)),
      seen_(saved.add(ActivationPolicy::attention)),
      lse_(saved.add(ActivationPolicy::attention)),
      gates_(saved.add(ActivationPolicy::all_but_gate_up)) {}

at::Tensor Attention::split_gates(const at::Tensor& rows, Saved& saved) const {
    const auto& [query_heads, key_heads, head_dim] = heads_;
    const int64_t width = query_heads * head_dim;
    const at::Tensor queries =
        rows.narrow(1, 0, 2 * width).unflatten(1, {query_heads, 2, head_dim});
    saved[gates_] = queries.select(2, 1).reshape({-1, width});
    return at::cat({queries.select(2, 0).reshape({-1, width}),
                    rows.narrow(1, 2 * width, 2 * key_heads * head_dim)},
                   1);
}

at::Tensor Attention::with_gates(const at::Tensor& d_qkv, const at::Tensor& d_gates) const {
    const auto& [query_heads, key_heads, head_dim] = heads_;
    const int64_t width = query_heads * head_dim;
    const auto by_head = [&](const at::Tensor& x) {
        return x.unflatten(1, {query_heads, head_dim});
    };
    const at::Tensor queries =
        at::stack({by_head(d_qkv.narrow(1, 0, width)), by_head(d_gates)}, 2).flatten(1);
    return at::cat({queries, d_qkv.narrow(1, width, 2 * key_heads * head_dim)}, 1);
}

at::Tensor Attention::gated(const Saved& saved) const {
    return is_gated_ ? saved[seen_] * at::sigmoid(saved[gates_]) : saved[seen_];
}

at::Tensor Attention::deal(const at::Tensor& projected) const {
    if (!is_fused_by_heads_) return projected;
    const auto& [query_heads, key_heads, head_dim] = heads_;
    const int64_t queries = query_heads / key_heads;
    const at::Tensor groups = projected.view({-1, key_heads, queries + 2, head_dim});
    const auto part = [&](int64_t first, int64_t count) {
        return groups.narrow(2, first, count).flatten(1);
    };
    return at::cat({part(0, queries), part(queries, 1), part(queries + 1, 1)}, 1);
}

at::Tensor Attention::deal_backward(const at::Tensor& d_qkv) const {
    if (!is_fused_by_heads_) return d_qkv;
    const auto& [query_heads, key_heads, head_dim] = heads_;
    const int64_t queries = query_heads / key_heads;
    const auto part = [&](int64_t first, int64_t heads, int64_t of_group) {
        return d_qkv.narrow(1, first * head_dim, heads * head_dim)
            .view({-1, key_heads, of_group, head_dim});
    };
    return at::cat({part(0, query_heads, queries), part(query_heads, key_heads, 1),
                    part(query_heads + key_heads, key_heads, 1)},
                   2)
        .flatten(1);
}

void Attention::rotate(const BlockContext& context, const at::Tensor& heads, ops::Turn turn) const {
    if (!rope_) return;
    ops::rope(heads, heads_.query_heads + heads_.key_heads, context.positions.ropes[*rope_], turn);
}

void Attention::scale_queries(const BlockContext& context, const at::Tensor& heads) const {
    const at::Tensor& scale = context.positions.query_scale;
    if (!scale.defined()) return;
    heads.narrow(1, 0, heads_.query_heads * heads_.head_dim).mul_(scale.to(heads.scalar_type()));
}

void Attention::project(const BlockContext& context, const shard::UnitTensors& weights,
                        const at::Tensor& x, Saved& saved) const {
    at::Tensor qkv = deal(qkv_projection_.forward(context.projections(), weights, x));
    if (is_gated_) qkv = split_gates(qkv, saved);
    if (norms_rotated_heads_) rotate(context, qkv, ops::Turn::forward);
    for (const HeadNorm& norm : head_norms_) norm.forward(weights, qkv, saved);
    if (!norms_rotated_heads_) rotate(context, qkv, ops::Turn::forward);
    scale_queries(context, qkv);
    saved[qkv_] = qkv;
}

at::Tensor Attention::project_backward(const BlockContext& context,
                                       const shard::UnitTensors& weights,
                                       const shard::UnitTensors& gradients,
                                       const at::Tensor& d_rows, const at::Tensor& x) const {
    if (!x.defined()) return qkv_projection_.backward_input(context.projections(), weights, d_rows);
    return qkv_projection_.backward(context.projections(), weights, gradients,
                                    deal_backward(d_rows), x, bias_gradient(context));
}

bool Attention::adds_gradients_last() const {
    return !is_fused_by_heads_ && qkv_projection_.splits_backward();
}

void Attention::add_project_gradients(const BlockContext& context,
                                      const shard::UnitTensors& weights,
                                      const shard::UnitTensors& gradients, const at::Tensor& d_rows,
                                      const at::Tensor& x) const {
    qkv_projection_.add_gradients(context.projections(), weights, gradients, d_rows, x,
                                  bias_gradient(context));
}

BiasGradient Attention::bias_gradient(const BlockContext& context) const {
    return has_projected_rows(context) && !qkv_projection_.has_biases_apart()
               ? BiasGradient::is_added
               : BiasGradient::is_missing;
}

attention::GradientFinish Attention::finish_of(const BlockContext& context,
                                               const shard::UnitTensors& gradients) const {
    attention::GradientFinish finish;
    const bool turns_first = !norms_rotated_heads_ && !context.positions.query_scale.defined();
    if (rope_ && turns_first) finish.rope = &context.positions.ropes[*rope_];
    if (has_projected_rows(context)) finish.d_bias = qkv_projection_.bias_gradient(gradients);
    return finish;
}

void Attention::mix(const BlockContext& context, const shard::UnitTensors& weights,
                    Saved& saved) const {
    if (saved[seen_].defined()) return;
    const at::Tensor sinks = sinks_of(weights);
    if (context.cache != nullptr) {
        saved[seen_] =
            context.attention.attend_cached(saved[qkv_], context.plan, context.cache->keys, sinks);
        return;
    }
    auto [out, lse] = context.attention.forward(saved[qkv_], context.plan, sinks);
    saved[seen_] = std::move(out);
    saved[lse_] = std::move(lse);
}

at::Tensor Attention::output(const BlockContext& context, const shard::UnitTensors& weights,
                             const Saved& saved, const at::Tensor& addend) const {
    return out_.forward(context.projections(), weights, gated(saved), addend);
}

at::Tensor Attention::output_backward(const BlockContext& context,
                                      const shard::UnitTensors& weights,
                                      const shard::UnitTensors& gradients, const at::Tensor& dy,
                                      const Saved& saved) const {
    at::Tensor d_seen = out_.backward(context.projections(), weights, gradients, dy, gated(saved));
    at::Tensor d_gates;
    if (is_gated_) {
        const at::Tensor opened = at::sigmoid(saved[gates_]);
        d_gates = d_seen * saved[seen_] * opened * (1 - opened);
        d_seen = d_seen * opened;
    }
    const attention::GradientFinish finish = finish_of(context, gradients);
    at::Tensor d_qkv =
        context.attention.backward(d_seen, saved[qkv_], {saved[seen_], saved[lse_]}, context.plan,
                                   {sinks_of(weights), sinks_of(gradients)}, finish);
    scale_queries(context, d_qkv);
    if (!norms_rotated_heads_ && finish.rope == nullptr)
        rotate(context, d_qkv, ops::Turn::backward);
    for (const HeadNorm& norm : head_norms_) norm.backward(weights, gradients, d_qkv, saved);
    if (norms_rotated_heads_) rotate(context, d_qkv, ops::Turn::backward);
    return is_gated_ ? with_gates(d_qkv, d_gates) : d_qkv;
}

std::vector<ProductUse> Attention::products(ActivationPolicy policy, bool keeps_output) const {
    std::vector<ProductUse> all;
    qkv_projection_.add_products("qkv", !qkv_.is_kept(policy), all);
    out_.add_products("out", !keeps_output, all);
    return all;
}

std::map<attention::Mask, Operations::OfPair> Attention::pairs(ActivationPolicy policy) const {
    // A score and a sum of values, each a multiplication and an addition for an element.
    const double of_pair = 4 * static_cast<double>(heads_.query_heads * heads_.head_dim);
    return {{mask_, {of_pair, seen_.is_kept(policy) ? 0 : of_pair}}};
}

}  // namespace ringshard::model
