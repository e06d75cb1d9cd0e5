#include "latent_attention.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "head_gates.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

ProjectionSpec latent_projection(const BlockSpec& block, const std::string& name, int64_t in,
                                 int64_t out, bool has_bias = false) {
    return {.layers = {{name, out}}, .in = in, .has_bias = has_bias, .adapters = block.adapters};
}

int64_t width_of_queries(const LatentSpec& spec) { return spec.heads.query_heads * spec.key_dim; }

// Queries, or their latents, and the gates of heads beside them.
ProjectionSpec query_projection(const BlockSpec& block, const LatentSpec& spec) {
    const int64_t rank = spec.query_rank;
    ProjectionSpec queries = rank > 0 ? latent_projection(block, spec.module + ".q_a_proj",
                                                          block.width, rank, spec.has_bias)
                                      : latent_projection(block, spec.module + ".q_proj",
                                                          block.width, width_of_queries(spec));
    if (spec.gates != HeadGates::none)
        queries.layers.push_back({spec.module + ".g_proj", spec.heads.query_heads});
    return queries;
}

}  // namespace

LatentAttention::QueryLatent::QueryLatent(shard::UnitLayout& unit, SavedLayout& saved,
                                          const BlockSpec& block, const LatentSpec& spec)
    : norm(unit, {spec.module + ".q_a_layernorm", spec.query_rank, spec.norm}),
      out(unit, latent_projection(block, spec.module + ".q_b_proj", spec.query_rank,
                                  width_of_queries(spec))),
      rows(saved.add(ActivationPolicy::all_but_gate_up)),
      inverse_rms(saved.add(ActivationPolicy::all_but_gate_up)) {}

LatentAttention::LatentAttention(shard::UnitLayout& unit, SavedLayout& saved,
                                 const BlockSpec& block, const LatentSpec& spec)
    : Mixer(saved),
      spec_(spec),
      sizes_{spec.heads.query_heads, spec_.key_dim, spec_.value_dim},
      query_in_(unit, query_projection(block, spec)),
      latent_in_(unit, latent_projection(block, spec_.module + ".kv_a_proj_with_mqa", block.width,
                                         spec_.rank + spec_.rotated, spec.has_bias)),
      latent_norm_(unit, {spec_.module + ".kv_a_layernorm", spec_.rank, spec_.norm}),
      expand_(unit, latent_projection(
                        block, spec_.module + ".kv_b_proj", spec_.rank,
                        sizes_.heads * (sizes_.key_dim - spec_.rotated + sizes_.value_dim))),
      out_(unit, latent_projection(block, spec_.out, sizes_.heads * sizes_.value_dim, block.width,
                                   spec.has_out_bias)),
      latent_rows_(saved.add(ActivationPolicy::all_but_gate_up)),
      latent_inverse_rms_(saved.add(ActivationPolicy::all_but_gate_up)),
      latents_(saved.add(ActivationPolicy::all_but_gate_up)),
      seen_(saved.add(ActivationPolicy::attention)),
      lse_(saved.add(ActivationPolicy::attention)),
      gates_(saved.add(ActivationPolicy::all_but_gate_up)) {
    if (spec_.query_rank > 0) query_latent_.emplace(unit, saved, block, spec);
}

std::vector<const Projection*> LatentAttention::projections() const {
    std::vector<const Projection*> all{&query_in_, &latent_in_, &expand_, &out_};
    if (query_latent_) all.push_back(&query_latent_->out);
    return all;
}

void LatentAttention::rotate(const BlockContext& context, const at::Tensor& rows, int64_t heads,
                             ops::Turn turn) const {
    if (!spec_.rope) return;
    const at::Tensor last = rows.unflatten(1, {heads, -1}).slice(2, -spec_.rotated);
    const at::Tensor turned = last.reshape({rows.size(0), heads * spec_.rotated}).contiguous();
    ops::RopeTable table = context.positions.ropes[*spec_.rope];
    table.head_dim = spec_.rotated;
    ops::rope(turned, heads, table, turn);
    last.copy_(turned.view(last.sizes()));
}

at::Tensor LatentAttention::split_gates(const at::Tensor& rows, Saved& saved) const {
    if (!has_gates()) return rows;
    const int64_t width = rows.size(1) - sizes_.heads;
    saved[gates_] = rows.slice(1, width).contiguous();
    return rows.slice(1, 0, width).contiguous();
}

void LatentAttention::project(const Pass& pass, const at::Tensor& x) const {
    const auto& [context, weights, saved] = pass;
    at::Tensor queries = split_gates(query_in_.forward(context.projections, weights, x), saved);
    if (query_latent_) {
        const ops::RmsNormed normed = query_latent_->norm.forward(weights, queries);
        saved[query_latent_->rows] = queries;
        saved[query_latent_->inverse_rms] = normed.inverse_rms;
        queries = query_latent_->out.forward(context.projections, weights, normed.y);
    }
    rotate(context, queries, sizes_.heads, ops::Turn::forward);
    context.positions.scale_queries(queries);
    saved[projected_] = queries;
    const at::Tensor rows = latent_in_.forward(context.projections, weights, x);
    const ops::RmsNormed latent =
        latent_norm_.forward(weights, rows.narrow(1, 0, spec_.rank).contiguous());
    saved[latent_rows_] = rows;
    saved[latent_inverse_rms_] = latent.inverse_rms;
    const at::Tensor latents = at::cat({latent.y, rows.narrow(1, spec_.rank, spec_.rotated)}, 1);
    rotate(context, latents, 1, ops::Turn::forward);
    saved[latents_] = latents;
}

at::Tensor LatentAttention::mixed(const Pass& pass) const {
    const at::Tensor& seen = pass.saved[seen_];
    return has_gates() ? scale_heads(seen, opened(spec_.gates, pass.saved[gates_])) : seen;
}

at::Tensor LatentAttention::expand(const Pass& pass, const at::Tensor& latents) const {
    const at::Tensor of_heads = expand_
                                    .forward(pass.context.projections, pass.weights,
                                             latents.narrow(1, 0, spec_.rank).contiguous())
                                    .unflatten(1, {sizes_.heads, -1});
    const int64_t plain = sizes_.key_dim - spec_.rotated;
    const at::Tensor rotated =
        latents.narrow(1, spec_.rank, spec_.rotated).unsqueeze(1).expand({-1, sizes_.heads, -1});
    return at::cat({at::cat({of_heads.narrow(2, 0, plain), rotated}, 2).flatten(1),
                    of_heads.narrow(2, plain, sizes_.value_dim).flatten(1)},
                   1);
}

at::Tensor LatentAttention::expand_backward(const BackwardPass& pass, const at::Tensor& d_rows,
                                            const at::Tensor& latents) const {
    const int64_t keys = sizes_.heads * sizes_.key_dim;
    const int64_t plain = sizes_.key_dim - spec_.rotated;
    const at::Tensor dk = d_rows.narrow(1, 0, keys).unflatten(1, {sizes_.heads, -1});
    const at::Tensor dv =
        d_rows.narrow(1, keys, sizes_.heads * sizes_.value_dim).unflatten(1, {sizes_.heads, -1});
    const at::Tensor d_latent =
        expand_.backward(pass.context.projections, pass.weights, pass.gradients,
                         at::cat({dk.narrow(2, 0, plain), dv}, 2).flatten(1),
                         latents.narrow(1, 0, spec_.rank).contiguous());
    return at::cat({d_latent, dk.narrow(2, plain, spec_.rotated).sum({1})}, 1);
}

attention::SequenceLatents LatentAttention::engine(const BlockContext& context) const {
    const auto& [ring, ulysses, options, device] = context.sequence;
    return {sizes_, ring, ulysses, options, device, spec_.scores};
}

attention::LatentExpansion LatentAttention::expansion(const Pass& pass) const {
    return {[this, &pass](const at::Tensor& latents) { return expand(pass, latents); }, {}};
}

attention::LatentExpansion LatentAttention::expansion(const BackwardPass& pass) const {
    attention::LatentExpansion both = expansion(static_cast<const Pass&>(pass));
    both.backward = [this, &pass](const at::Tensor& d_rows, const at::Tensor& latents) {
        return expand_backward(pass, d_rows, latents);
    };
    return both;
}

void LatentAttention::mix(const Pass& pass) const {
    const auto& [context, weights, saved] = pass;
    if (saved.has(seen_)) return;
    const attention::Plan& plan = context.plan_of(spec_.mask);
    if (context.cache != nullptr) {
        saved[seen_] = engine(context).attend_cached(saved[projected_], saved[latents_],
                                                     expansion(pass), plan, context.cache->keys);
        return;
    }
    auto [out, lse] =
        engine(context).forward(saved[projected_], saved[latents_], expansion(pass), plan);
    saved[seen_] = std::move(out);
    saved[lse_] = std::move(lse);
}

at::Tensor LatentAttention::queries_backward(const BackwardPass& pass,
                                             const at::Tensor& d_queries) const {
    pass.context.positions.scale_queries(d_queries);
    rotate(pass.context, d_queries, sizes_.heads, ops::Turn::backward);
    if (!query_latent_) return d_queries;
    const at::Tensor& rows = pass.saved[query_latent_->rows];
    const at::Tensor& inverse_rms = pass.saved[query_latent_->inverse_rms];
    const at::Tensor d_normed = query_latent_->out.backward(
        pass.context.projections, pass.weights, pass.gradients, d_queries,
        query_latent_->norm.again(pass.weights, rows, inverse_rms));
    at::Tensor d_rows = at::zeros_like(rows);
    query_latent_->norm.backward(pass.weights, pass.gradients, d_normed, rows, inverse_rms, d_rows);
    return d_rows;
}

at::Tensor LatentAttention::latents_backward(const BackwardPass& pass,
                                             const at::Tensor& d_latents) const {
    rotate(pass.context, d_latents, 1, ops::Turn::backward);
    const at::Tensor before = pass.saved[latent_rows_].narrow(1, 0, spec_.rank).contiguous();
    const at::Tensor d_before = at::zeros_like(before);
    latent_norm_.backward(pass.weights, pass.gradients,
                          d_latents.narrow(1, 0, spec_.rank).contiguous(), before,
                          pass.saved[latent_inverse_rms_], d_before);
    return at::cat({d_before, d_latents.narrow(1, spec_.rank, spec_.rotated)}, 1);
}

void LatentAttention::backward(const BackwardPass& pass, at::Tensor dy,
                               const LayerInput& input) const {
    const auto& [context, weights, saved] = static_cast<const Pass&>(pass);
    GateGradient d{
        .seen = out_.backward(context.projections, weights, pass.gradients, dy, mixed(pass)),
        .gates = {}};
    dy.reset();
    if (has_gates()) d = gates_backward(spec_.gates, d.seen, saved[seen_], saved[gates_]);
    const auto [d_queries, d_latents] = engine(context).backward(
        d.seen, saved[projected_], saved[latents_], {saved[seen_], saved[lse_]}, expansion(pass),
        context.plan_of(spec_.mask));
    const at::Tensor x = input.again(pass);
    at::Tensor d_rows = queries_backward(pass, d_queries);
    if (has_gates()) d_rows = at::cat({d_rows, d.gates}, 1);
    const at::Tensor dx =
        query_in_.backward(context.projections, weights, pass.gradients, d_rows, x);
    dx.add_(latent_in_.backward(context.projections, weights, pass.gradients,
                                latents_backward(pass, d_latents), x));
    input.add_gradient(pass, dx);
}

void LatentAttention::add_costs(StageCosts& costs, bool makes_output_again) const {
    const bool is_again = is_projected_again(costs.policy);
    query_in_.add_products("queries", is_again, costs.products);
    if (query_latent_)
        query_latent_->out.add_products("queries of latents", is_again, costs.products);
    latent_in_.add_products("latents", is_again, costs.products);
    expand_.add_products("keys and values", true, costs.products);
    out_.add_products("out", makes_output_again, costs.products);
    const auto width = static_cast<double>(sizes_.heads * sizes_.as_heads().head_dim);
    costs.add_pairs(spec_.mask, attention_of(width, !seen_.is_kept(costs.policy), 4 * width));
}

void LatentAttention::make_cache(LayerCache& cache, int64_t capacity, int64_t,
                                 const at::TensorOptions& options) const {
    const attention::HeadCounts heads = sizes_.as_heads();
    cache.keys.keys = at::empty({capacity, heads.key_heads, heads.head_dim}, options);
    cache.keys.values = at::empty_like(cache.keys.keys);
}

std::set<std::string> LatentAttention::operators(const BlockContext& context, at::ScalarType type,
                                                 at::Device device) const {
    return engine(context).attention().operators(context.plan_of(spec_.mask), type, device);
}

bool LatentAttention::can_be_recorded(const BlockContext& context) const {
    return engine(context).attention().can_be_recorded(context.plan_of(spec_.mask));
}

}  // namespace ringshard::model
