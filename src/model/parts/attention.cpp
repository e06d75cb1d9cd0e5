#include "attention.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>

#include <utility>

#include "head_gates.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

ProjectionSpec qkv_of(const BlockSpec& block, const AttentionSpec& attention) {
    const auto& [query_heads, key_heads, head_dim] = attention.heads;
    const int64_t keys = key_heads * head_dim;
    const int64_t values = key_heads * attention.value_width();
    const HeadGates gates = attention.gates;
    const int64_t elements = query_heads * head_dim;
    const int64_t queries = elements * (gates == HeadGates::in_queries ? 2 : 1);
    ProjectionSpec spec{.layers = {{attention.module + ".q_proj", queries},
                                   {attention.module + ".k_proj", keys},
                                   {attention.module + ".v_proj", values}},
                        .in = block.width,
                        .has_bias = attention.has_bias,
                        .has_biases_apart = block.has_biases_apart,
                        .adapters = block.adapters,
                        .matrix = block.matrices};
    if (attention.values_are_keys) spec.layers.pop_back();
    if (!attention.has_keys()) spec.layers.resize(1);
    if (attention.is_fused) spec.layers = {{attention.qkv, attention.qkv_width()}};
    if (gates == HeadGates::sigmoid)
        spec.layers.push_back({attention.module + ".gate_proj", elements});
    if (gates == HeadGates::softplus || gates == HeadGates::softplus_of_heads)
        spec.layers.push_back(
            {attention.module + ".g_proj", gates == HeadGates::softplus ? elements : query_heads});
    return spec;
}

std::vector<HeadNorm> head_norms_of(shard::UnitLayout& unit, SavedLayout& saved,
                                    const BlockSpec& block, const AttentionSpec& attention) {
    const auto& [query_heads, key_heads, head_dim] = attention.heads;
    std::vector<HeadNorm> norms;
    NormForm form = block.norm;
    const auto add = [&](const std::string& name, int64_t width, ops::HeadRange range) {
        norms.emplace_back(unit, saved, Norm::Spec{name, width, form}, range);
    };
    const HeadNormKind kind = attention.head_norm;
    if (kind == HeadNormKind::each_head) {
        add(attention.query_norm, head_dim, {0, query_heads});
        if (attention.has_keys()) add(attention.key_norm, head_dim, {query_heads, key_heads});
    } else if (kind == HeadNormKind::all_heads) {
        add(attention.query_norm, query_heads * head_dim, {0, 1});
        add(attention.key_norm, key_heads * head_dim, {query_heads / key_heads, 1});
    }
    form.has_weight = false;
    if (attention.norms_values && attention.has_keys())
        add({}, head_dim, {query_heads + key_heads, key_heads});
    return norms;
}

// A vector that decays as matrices do, as transformers has it.
std::optional<shard::ParameterId> add_sinks(shard::UnitLayout& unit, const AttentionSpec& spec) {
    if (spec.sinks.empty()) return std::nullopt;
    return unit.add({.tensors = {{spec.sinks, {spec.heads.query_heads}}},
                     .update = shard::UpdateKind::decaying});
}

}  // namespace

Attention::Attention(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                     const AttentionSpec& spec)
    : Mixer(saved),
      heads_(spec.heads),
      mask_(spec.mask),
      shared_keys_(spec.shared_keys),
      has_keys_(spec.has_keys()),
      qkv_projection_(unit, qkv_of(block, spec)),
      out_(unit, {.layers = {{spec.out, block.width}},
                  .in = spec.out_width(),
                  .has_bias = spec.has_out_bias,
                  .adapters = block.adapters,
                  .matrix = block.matrices}),
      head_norms_(head_norms_of(unit, saved, block, spec)),
      is_fused_by_heads_(spec.is_fused_by_heads),
      values_are_keys_(spec.values_are_keys),
      value_dim_(spec.value_width()),
      value_factor_(spec.value_factor),
      norms_rotated_heads_(spec.norms_rotated_heads),
      rope_(spec.rope),
      kind_of_gates_(spec.gates),
      scores_(spec.scores),
      sinks_(add_sinks(unit, spec)),
      seen_(saved.add(ActivationPolicy::attention)),
      lse_(saved.add(ActivationPolicy::attention)),
      gates_(saved.add(ActivationPolicy::all_but_gate_up)) {}

at::Tensor Attention::split_gates(const at::Tensor& rows, Saved& saved) const {
    const auto& [query_heads, key_heads, head_dim] = heads_;
    const int64_t width = query_heads * head_dim;
    if (kind_of_gates_ != HeadGates::in_queries) {
        const int64_t qkv_width = width + 2 * key_heads * head_dim;
        saved[gates_] = rows.slice(1, qkv_width).contiguous();
        return rows.slice(1, 0, qkv_width).contiguous();
    }
    const at::Tensor queries =
        rows.narrow(1, 0, 2 * width).unflatten(1, {query_heads, 2, head_dim});
    saved[gates_] = queries.select(2, 1).reshape({-1, width});
    return at::cat({queries.select(2, 0).reshape({-1, width}),
                    rows.narrow(1, 2 * width, 2 * key_heads * head_dim)},
                   1);
}

at::Tensor Attention::with_gates(const at::Tensor& d_qkv, const at::Tensor& d_gates) const {
    if (kind_of_gates_ != HeadGates::in_queries) return at::cat({d_qkv, d_gates}, 1);
    const auto& [query_heads, key_heads, head_dim] = heads_;
    const int64_t width = query_heads * head_dim;
    const auto by_head = [&](const at::Tensor& x) {
        return x.unflatten(1, {query_heads, head_dim});
    };
    const at::Tensor queries =
        at::stack({by_head(d_qkv.narrow(1, 0, width)), by_head(d_gates)}, 2).flatten(1);
    return at::cat({queries, d_qkv.narrow(1, width, 2 * key_heads * head_dim)}, 1);
}

at::Tensor Attention::mixed(const Pass& pass) const {
    const Saved& saved = pass.saved;
    if (has_gates()) return scale_heads(saved[seen_], opened(kind_of_gates_, saved[gates_]));
    return has_narrow_values() ? narrowed(saved[seen_], heads_.query_heads) : saved[seen_];
}

at::Tensor Attention::narrowed(const at::Tensor& rows, int64_t heads) const {
    return rows.unflatten(1, {heads, heads_.head_dim}).narrow(2, 0, value_dim_).flatten(1);
}

at::Tensor Attention::widened(const at::Tensor& rows, int64_t heads) const {
    return at::constant_pad_nd(rows.unflatten(1, {heads, value_dim_}),
                               {0, heads_.head_dim - value_dim_})
        .flatten(1);
}

at::Tensor Attention::deal(const at::Tensor& projected) const {
    const auto& [query_heads, key_heads, head_dim] = heads_;
    if (values_are_keys_)
        return at::cat({projected, projected.slice(1, query_heads * head_dim)}, 1);
    if (has_other_values()) {
        const int64_t others = (query_heads + key_heads) * head_dim;
        const at::Tensor values = projected.slice(1, others).mul(value_factor_);
        return at::cat({projected.narrow(1, 0, others), widened(values, key_heads)}, 1);
    }
    if (!is_fused_by_heads_) return projected;
    const int64_t queries = query_heads / key_heads;
    const at::Tensor groups = projected.view({-1, key_heads, queries + 2, head_dim});
    const auto part = [&](int64_t first, int64_t count) {
        return groups.narrow(2, first, count).flatten(1);
    };
    return at::cat({part(0, queries), part(queries, 1), part(queries + 1, 1)}, 1);
}

at::Tensor Attention::deal_backward(const at::Tensor& d_qkv) const {
    const auto& [query_heads, key_heads, head_dim] = heads_;
    if (values_are_keys_) {
        const int64_t keys = key_heads * head_dim;
        const int64_t width = query_heads * head_dim + keys;
        d_qkv.narrow(1, width - keys, keys).add_(d_qkv.narrow(1, width, keys));
        return d_qkv.narrow(1, 0, width).contiguous();
    }
    if (has_other_values()) {
        const int64_t others = (query_heads + key_heads) * head_dim;
        const at::Tensor d_values = narrowed(d_qkv.slice(1, others), key_heads);
        return at::cat({d_qkv.narrow(1, 0, others), d_values * value_factor_}, 1);
    }
    if (!is_fused_by_heads_) return d_qkv;
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
    const int64_t turned = heads_.query_heads + (has_keys_ ? heads_.key_heads : 0);
    ops::rope(heads, turned, context.positions.ropes[*rope_], turn);
}

void Attention::project(const Pass& pass, const at::Tensor& x) const {
    const auto& [context, weights, saved] = pass;
    at::Tensor qkv = deal(qkv_projection_.forward(context.projections, weights, x));
    if (has_gates()) qkv = split_gates(qkv, saved);
    if (norms_rotated_heads_) rotate(context, qkv, ops::Turn::forward);
    for (const HeadNorm& norm : head_norms_) norm.forward(weights, qkv, saved);
    if (!norms_rotated_heads_) rotate(context, qkv, ops::Turn::forward);
    context.positions.scale_queries(qkv.narrow(1, 0, query_width()));
    saved[projected_] = shared_keys_ ? with_shared_keys(context, qkv) : qkv;
}

at::Tensor Attention::with_shared_keys(const BlockContext& context, const at::Tensor& heads) const {
    KeysOfGroup& keys = context.shared->keys[shared_keys_->group];
    if (!has_keys_) return at::cat({heads, keys.rows.value()}, 1);
    if (!keys.rows) keys.rows = heads.slice(1, query_width()).contiguous();
    return heads;
}

at::Tensor Attention::share_gradient(const BlockContext& context, const at::Tensor& d_qkv) const {
    KeysOfGroup& keys = context.shared->keys[shared_keys_->group];
    const at::Tensor here = d_qkv.slice(1, query_width());
    if (keys.gradient)
        keys.gradient->add_(here);
    else
        keys.gradient = here.to(at::kFloat);
    if (!has_keys_) return d_qkv.slice(1, 0, query_width()).contiguous();
    here.copy_(std::exchange(keys.gradient, std::nullopt).value());
    return d_qkv;
}

BiasGradient Attention::bias_gradient(const BlockContext& context) const {
    return has_projected_rows(context) && !qkv_projection_.has_biases_apart()
               ? BiasGradient::is_added
               : BiasGradient::is_missing;
}

attention::GradientFinish Attention::finish_of(const BlockContext& context,
                                               const shard::UnitTensors& gradients) const {
    attention::GradientFinish finish;
    const bool turns_first = !norms_rotated_heads_ && !context.positions.query_scale;
    if (rope_ && turns_first) finish.rope = &context.positions.ropes[*rope_];
    if (has_projected_rows(context)) finish.d_bias = qkv_projection_.bias_gradient(gradients);
    return finish;
}

attention::SequenceAttention Attention::engine(const BlockContext& context) const {
    const auto& [ring, ulysses, options, device] = context.sequence;
    return {heads_, ring, ulysses, options, device, scores_};
}

void Attention::mix(const Pass& pass) const {
    const auto& [context, weights, saved] = pass;
    if (saved.has(seen_)) return;
    const at::Tensor sinks = sinks_of(weights);
    const attention::Plan& plan = context.plan_of(mask_);
    if (context.cache != nullptr) {
        saved[seen_] =
            engine(context).attend_cached(saved[projected_], plan, context.cache->keys, sinks);
        return;
    }
    auto [out, lse] = engine(context).forward(saved[projected_], plan, sinks);
    saved[seen_] = std::move(out);
    saved[lse_] = std::move(lse);
}

at::Tensor Attention::rows_gradient(const BackwardPass& pass, at::Tensor dy) const {
    const auto& [context, weights, saved] = static_cast<const Pass&>(pass);
    const shard::UnitTensors& gradients = pass.gradients;
    at::Tensor d_seen = out_.backward(context.projections, weights, gradients, dy, mixed(pass));
    dy.reset();
    if (has_narrow_values()) d_seen = widened(d_seen, heads_.query_heads);
    at::Tensor d_gates;
    if (has_gates()) {
        GateGradient both = gates_backward(kind_of_gates_, d_seen, saved[seen_], saved[gates_]);
        d_seen = std::move(both.seen);
        d_gates = std::move(both.gates);
    }
    const attention::GradientFinish finish = finish_of(context, gradients);
    at::Tensor d_qkv = engine(context).backward(d_seen, saved[projected_],
                                                {saved[seen_], saved[lse_]}, context.plan_of(mask_),
                                                {sinks_of(weights), sinks_of(gradients)}, finish);
    context.positions.scale_queries(d_qkv.narrow(1, 0, query_width()));
    if (!norms_rotated_heads_ && finish.rope == nullptr)
        rotate(context, d_qkv, ops::Turn::backward);
    if (shared_keys_) d_qkv = share_gradient(context, d_qkv);
    for (const HeadNorm& norm : head_norms_) norm.backward(weights, gradients, d_qkv, saved);
    if (norms_rotated_heads_) rotate(context, d_qkv, ops::Turn::backward);
    return deal_backward(has_gates() ? with_gates(d_qkv, d_gates) : d_qkv);
}

void Attention::backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const {
    input.backward(pass, qkv_projection_, rows_gradient(pass, std::move(dy)),
                   bias_gradient(pass.context));
}

void Attention::add_costs(StageCosts& costs, bool makes_output_again) const {
    const auto queries = static_cast<double>(heads_.query_heads * heads_.head_dim);
    const auto keys = static_cast<double>(heads_.key_heads * heads_.head_dim);
    const bool is_again = is_projected_again(costs.policy);
    qkv_projection_.add_products("qkv", is_again, costs.products);
    out_.add_products("out", makes_output_again, costs.products);
    costs.add_pairs(mask_,
                    attention_of(queries, !seen_.is_kept(costs.policy), 2 * queries + 2 * keys));
    if (rope_) {
        const double turned = 2 * (has_keys_ ? queries + keys : queries);
        costs.add_rows("RoPE, forward", turned, {"::TurnHeads"});
        if (is_again) costs.add_rows("RoPE, again", turned, {"::TurnHeads"});
    }
    costs.add_rows("gradients of heads", 2 * (queries + 2 * keys), {"::PutHeads"});
}

void Attention::make_cache(LayerCache& cache, int64_t capacity, int64_t,
                           const at::TensorOptions& options) const {
    cache.keys.keys = at::empty({capacity, heads_.key_heads, heads_.head_dim}, options);
    cache.keys.values = at::empty_like(cache.keys.keys);
}

std::set<std::string> Attention::operators(const BlockContext& context, at::ScalarType type,
                                           at::Device device) const {
    return engine(context).operators(context.plan_of(mask_), type, device);
}

bool Attention::can_be_recorded(const BlockContext& context) const {
    return engine(context).can_be_recorded(context.plan_of(mask_));
}

}  // namespace ringshard::model
