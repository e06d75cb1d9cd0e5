#include "ringshard/attention/sequence_attention.hpp"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_copy.h>

#include <algorithm>

#include "exchanged_attention.hpp"
#include "gathered_attention.hpp"
#include "ring_attention.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/ops/linear.hpp"
#include "sinks.hpp"
#include "tile_pack.hpp"
#include "ulysses.hpp"

namespace ringshard::attention {

std::string why_heads_do_not_split(const HeadCounts& heads, int64_t ulysses) {
    if (heads.query_heads % ulysses != 0)
        return format_text("{} query heads cannot be divided among {} ranks", heads.query_heads,
                           ulysses);
    if (heads.key_heads % ulysses != 0 && ulysses % heads.key_heads != 0)
        return format_text(
            "{} key heads can neither be divided among {} ranks nor repeated for them",
            heads.key_heads, ulysses);
    return {};
}

std::vector<int64_t> ulysses_sizes(const HeadCounts& heads) {
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size <= heads.query_heads; ++size)
        if (why_heads_do_not_split(heads, size).empty()) sizes.push_back(size);
    return sizes;
}

SequenceAttention::SequenceAttention(const HeadCounts& heads, comm::Communicator& ring,
                                     comm::Communicator& ulysses,
                                     const ContextParallelOptions& context_parallel,
                                     c10::DeviceType planned, const ops::ScoreForm& form)
    : heads_(heads),
      ring_(ring),
      ulysses_(ulysses),
      // A ring of one has nothing to gather.
      gathers_keys_(context_parallel.keys == ContextParallelOptions::Keys::all_gather &&
                    ring.size() > 1),
      exchange_type_of_heads_(context_parallel.heads),
      planned_(planned),
      form_(form) {
    RINGSHARD_CHECK(why_heads_do_not_split(heads, ulysses.size()).empty());
}

namespace {

// Views of the heads in packed rows.
Heads split_heads(const at::Tensor& qkv, const HeadCounts& counts, const ops::ScoreForm& form) {
    const auto part = [&](int64_t first_head, int64_t num_heads) {
        return at::as_strided(qkv, {qkv.size(0), num_heads, counts.head_dim},
                              {qkv.stride(0), counts.head_dim, 1},
                              qkv.storage_offset() + first_head * counts.head_dim);
    };
    return {part(0, counts.query_heads), part(counts.query_heads, counts.key_heads),
            part(counts.query_heads + counts.key_heads, counts.key_heads), form};
}

}  // namespace

at::Tensor SequenceAttention::of_own_heads(const at::Tensor& of_heads) const {
    const int64_t count = heads_.query_heads / ulysses_.size();
    return of_heads.narrow(0, ulysses_.rank() * count, count);
}

SequenceAttention::Result SequenceAttention::forward(const at::Tensor& qkv, const Plan& plan,
                                                     const at::Tensor& sinks) const {
    const HeadExchange exchange(heads_, ulysses_, {qkv.scalar_type(), exchange_type_of_heads_});
    const Heads heads = split_heads(exchange.qkv_in(qkv), exchange.mine(), form_);
    const LocalAttention local = local_attention_of(qkv, planned_);
    const auto forward = way_of(plan, ring_forward, gathered_forward, exchanged_forward);
    const Partial partial = forward(local, heads, plan, ring_);
    if (sinks.defined()) add_sinks(partial.out, partial.lse, of_own_heads(sinks));
    return {exchange.heads_out(partial.out.flatten(1)), partial.lse};
}

at::Tensor SequenceAttention::backward(const at::Tensor& d_out, const at::Tensor& qkv,
                                       const Result& result, const Plan& plan, const Sinks& sinks,
                                       const GradientFinish& finish) const {
    const HeadExchange exchange(heads_, ulysses_, {qkv.scalar_type(), exchange_type_of_heads_});
    const HeadCounts& mine = exchange.mine();
    const auto as_heads = [&](const at::Tensor& rows) {
        return exchange.heads_in(rows).unflatten(1, {mine.query_heads, mine.head_dim});
    };
    const Heads heads = split_heads(exchange.qkv_in(qkv), mine, form_);
    const int64_t width = (mine.query_heads + 2 * mine.key_heads) * mine.head_dim;
    const at::Tensor d_qkv =
        at::empty({heads.q.size(0), width}, qkv.options().dtype(exchange.exchange_type()));
    const Heads of_heads = split_heads(d_qkv, mine, form_);
    const auto backward = way_of(plan, ring_backward, gathered_backward, exchanged_backward);
    const LocalAttention local = local_attention_of(qkv, planned_);
    const bool finishes =
        local.finishes_rows && plan.never_merges() && ring_.size() == 1 && ulysses_.size() == 1;
    HeadGradients gradients{of_heads.q, of_heads.k, of_heads.v};
    if (finishes) {
        gradients.rows = d_qkv;
        gradients.finish = finish;
    }
    {  // Ulysses' copies of both live no longer than they are needed.
        const at::Tensor d_heads = as_heads(d_out);
        const at::Tensor seen = as_heads(result.out);
        if (sinks.gradient.defined())
            add_sink_gradient(of_own_heads(sinks.gradient), d_heads, seen, result.lse,
                              of_own_heads(sinks.scores));
        backward(local, d_heads, heads, {seen, result.lse}, plan, ring_, gradients);
    }
    at::Tensor whole = exchange.qkv_gradient_out(d_qkv);
    if (finishes) return whole;
    if (finish.rope != nullptr)
        ops::rope(whole, heads_.query_heads + heads_.key_heads, *finish.rope, ops::Turn::backward);
    ops::add_bias_gradient(finish.d_bias, whole);
    return whole;
}

at::Tensor SequenceAttention::attend_cached(const at::Tensor& qkv, const Plan& plan,
                                            const KeyValueCache& cache,
                                            const at::Tensor& sinks) const {
    const Heads heads = split_heads(qkv, heads_, form_);
    cache.keys.index_copy_(0, cache.places, heads.k);
    cache.values.index_copy_(0, cache.places, heads.v);
    const Heads seen{heads.q, cache.keys, cache.values, form_};
    Partial partial = make_partial(seen, plan);
    local_attention_of(qkv, planned_).attend(seen, plan.step(0), Into::fresh, partial);
    if (sinks.defined()) add_sinks(partial.out, partial.lse, sinks);
    return partial.out.flatten(1);
}

std::set<std::string> SequenceAttention::operators(const Plan& plan, at::ScalarType type,
                                                   at::Device device) const {
    const HeadExchange exchange(heads_, ulysses_, {type, exchange_type_of_heads_});
    return operators_of(plan, type, {heads_.head_dim, form_, exchange.mine().key_heads}, device);
}

bool SequenceAttention::can_be_recorded(const Plan& plan) const {
    if (ring_.size() > 1 || ulysses_.size() > 1 || plan.chain) return false;
    const auto has_no_ragged_call = [](const std::vector<Tile>& tiles) {
        return std::ranges::none_of(pack_tiles(tiles), &TilePack::is_ragged);
    };
    return !plan.prepared.steps.empty() || std::ranges::all_of(plan.steps, has_no_ragged_call);
}

}  // namespace ringshard::attention
