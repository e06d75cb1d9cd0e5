#include "ringshard/attention/sequence_delta.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/attention/cached_delta.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/ops/causal_conv.hpp"
#include "ringshard/ops/delta_rule.hpp"
#include "state_exchange.hpp"
#include "ulysses.hpp"

namespace ringshard::attention {

namespace {

using Columns = ColumnExchange::Columns;

DeltaSizes sizes_of_rank(const DeltaSizes& all, int64_t ranks) {
    const HeadCounts heads = heads_of_rank(all.heads(), ranks);
    return {heads.key_heads, heads.query_heads, all.key_dim, all.value_dim, all.rule};
}

// Where the heads of a rank lie in a row, in its order.
std::vector<Columns> columns_of_rank(const DeltaSizes& all, int64_t rank, int64_t ranks) {
    const DeltaSizes mine = sizes_of_rank(all, ranks);
    const int64_t keys = first_key_head(all.heads(), rank, ranks) * all.key_dim;
    const int64_t head = rank * mine.value_heads;
    std::vector<Columns> columns{{all.first_query() + keys, mine.keys()},
                                 {all.first_key() + keys, mine.keys()},
                                 {all.first_value() + head * all.value_dim, mine.values()}};
    std::ranges::sort(columns, {}, &Columns::begin);
    if (mine.betas() > 0) columns.push_back({all.convolved() + head, mine.betas()});
    columns.push_back({all.convolved() + all.betas() + head * all.decays_of_head(), mine.decays()});
    return columns;
}

// The share of a Ulysses rank: its heads of all tokens of its ring rank.
struct Share {
    Share(const DeltaSizes& all_sizes, comm::Communicator& ulysses,
          const ColumnExchange::Types& types)
        : all(all_sizes),
          sizes(sizes_of_rank(all, ulysses.size())),
          first_value_head(ulysses.rank() * sizes.value_heads),
          exchange(columns(all, ulysses.size()), ulysses, types) {}

    static std::vector<std::vector<Columns>> columns(const DeltaSizes& all, int64_t ranks) {
        std::vector<std::vector<Columns>> of_ranks;
        for (int64_t rank = 0; rank < ranks; ++rank)
            of_ranks.push_back(columns_of_rank(all, rank, ranks));
        return of_ranks;
    }
    // The channels of the convolution, and those of the gates. `add` is called with the parts of a
    // weight that belong to this rank.
    at::Tensor conv_of(const at::Tensor& weight) const {
        if (!weight.defined() || sizes.convolved() == all.convolved()) return weight;
        std::vector<at::Tensor> parts;
        for (size_t part = 0; part < 3; ++part) {
            const auto& [begin, length] = exchange.mine()[part];
            parts.push_back(weight.narrow(0, begin, length));
        }
        return at::cat(parts);
    }
    void add_conv(const at::Tensor& d_conv, const at::Tensor& d_weight) const {
        if (!d_weight.defined()) return;
        int64_t from = 0;
        for (size_t part = 0; part < 3; ++part) {
            const auto& [begin, length] = exchange.mine()[part];
            d_weight.narrow(0, begin, length).add_(d_conv.narrow(0, from, length));
            from += length;
        }
    }
    at::Tensor of_value_heads(const at::Tensor& x) const {
        if (!x.defined()) return x;
        const int64_t each = x.size(0) / all.value_heads;
        return x.narrow(0, first_value_head * each, sizes.value_heads * each);
    }
    ops::DecayWeights decay_of(const ops::DecayWeights& weights) const {
        return {of_value_heads(weights.log_rate), of_value_heads(weights.bias), weights.least_step,
                weights.least_log_decay, weights.beta_scale};
    }
    DeltaWeights of(const DeltaWeights& weights) const {
        return {conv_of(weights.conv), decay_of(weights.decay), conv_of(weights.conv_bias),
                of_value_heads(weights.skip)};
    }

    DeltaSizes all;
    DeltaSizes sizes;
    int64_t first_value_head;
    ColumnExchange exchange;
};

// Rows of a share, or their gradients, as views.
struct Parts {
    Parts(const at::Tensor& rows, const DeltaSizes& sizes)
        : convolved(rows.narrow(1, 0, sizes.convolved())),
          a(rows.narrow(1, sizes.columns() - sizes.decays(), sizes.decays())
                .unflatten(1, {sizes.value_heads, sizes.decays_of_head()})) {
        if (!sizes.is_additive()) b = rows.narrow(1, sizes.convolved(), sizes.betas());
    }
    at::Tensor convolved;
    at::Tensor a;  // [t, heads, decays of a head]
    at::Tensor b;  // of the delta rule
};

ops::DeltaGates gates_of(const Parts& parts, const ops::DecayWeights& decay) {
    return parts.b.defined() ? ops::delta_gates(parts.a, parts.b, decay)
                             : ops::step_gates(parts.a, decay);
}

void gates_backward(const ops::DeltaGates& gradients, const Parts& parts,
                    const ops::DecayWeights& decay, const Parts& d_parts,
                    const ops::DecayWeights& d_decay) {
    if (parts.b.defined())
        ops::delta_gates_backward(gradients, parts.a, parts.b, decay, d_parts.a, d_parts.b,
                                  d_decay);
    else
        ops::step_gates_backward(gradients, parts.a, decay, d_parts.a, d_decay);
}

// Views of the heads in rows that were convolved, or in their gradients.
ops::DeltaHeads as_heads(const at::Tensor& rows, const ops::DeltaGates& gates,
                         const DeltaSizes& sizes, c10::DeviceType planned) {
    const auto part = [&](int64_t begin, int64_t heads, int64_t dim) {
        return rows.narrow(1, begin, heads * dim).unflatten(1, {heads, dim});
    };
    return {part(sizes.first_query(), sizes.key_heads, sizes.key_dim),
            part(sizes.first_key(), sizes.key_heads, sizes.key_dim),
            part(sizes.first_value(), sizes.value_heads, sizes.value_dim),
            gates.log_decay,
            gates.beta,
            sizes.rule,
            planned};
}

// Returns the outputs of the rule, plus a share of each token's own value.
at::Tensor read_of(const ops::DeltaHeads& heads, const at::Tensor& skip, const Chain& chain,
                   const ops::DeltaStates& states) {
    at::Tensor read = ops::delta_rule(heads, chain.stretches, states);
    return skip.defined() ? read.add_(heads.v * skip.unsqueeze(1)) : read;
}

std::vector<ops::Stretch> cut_stretches(const Chain& chain) {
    std::vector<ops::Stretch> cut;
    for (const size_t stretch : chain.cut) cut.push_back(chain.stretches[stretch]);
    return cut;
}

}  // namespace

SequenceDelta::Result SequenceDelta::forward(const DeltaSizes& sizes, const at::Tensor& rows,
                                             const DeltaWeights& weights, const Plan& plan) const {
    RINGSHARD_CHECK(plan.chain, "a plan of another mask");
    const Chain& chain = *plan.chain;
    const Share share(sizes, ulysses_, {rows.scalar_type(), exchange_type_});
    const Parts mine(share.exchange.in(rows), share.sizes);
    Result result;
    result.before = rows_before_stretches(chain, ring_, mine.convolved);
    const DeltaWeights of_share = share.of(weights);
    const at::Tensor convolved = ops::causal_conv(
        mine.convolved, {of_share.conv, chain.stretches, result.before, of_share.conv_bias});
    const ops::DeltaHeads heads =
        as_heads(convolved, gates_of(mine, of_share.decay), share.sizes, planned_);
    if (chain.slots > 0)
        result.first_state = first_states(
            chain, ring_, ops::delta_rule_maps(heads, cut_stretches(chain)), sizes.value_dim);
    result.between = ops::make_between(heads, chain.stretches);
    const at::Tensor read =
        read_of(heads, of_share.skip, chain, {result.first_state, {}, result.between});
    result.out = share.exchange.parts_out(read.flatten(1));
    return result;
}

at::Tensor delta_cached(const DeltaSizes& sizes, const at::Tensor& rows,
                        const DeltaWeights& weights, const Plan& plan, const StateCache& cache) {
    RINGSHARD_CHECK(plan.chain && plan.chain->slots == 0, "a plan of another mask, or of a split");
    const Chain& chain = *plan.chain;
    const Parts parts(rows, sizes);
    const at::Tensor convolved = ops::causal_conv(
        parts.convolved, {weights.conv, chain.stretches, cache.before, weights.conv_bias});
    keep_last_rows(parts.convolved, chain, cache.before);
    const ops::DeltaHeads heads =
        as_heads(convolved, gates_of(parts, weights.decay), sizes, c10::DeviceType::CPU);
    return read_of(heads, weights.skip, chain, {cache.states, cache.states}).flatten(1);
}

namespace {

// Adds to the gradients of the values and of the weights.
void skip_backward(const at::Tensor& values, const at::Tensor& skip, const at::Tensor& d_read,
                   const at::Tensor& d_values, const at::Tensor& d_skip) {
    d_values.add_(d_read * skip.unsqueeze(1));
    if (d_skip.defined()) d_skip.add_((d_read.to(at::kFloat) * values).sum({2}).sum({0}));
}

}  // namespace

at::Tensor SequenceDelta::backward(const DeltaSizes& sizes, const at::Tensor& rows,
                                   const DeltaWeights& weights, const Result& result,
                                   const at::Tensor& d_out, const DeltaWeights& gradients,
                                   const Plan& plan) const {
    const Chain& chain = *plan.chain;
    const Share share(sizes, ulysses_, {rows.scalar_type(), exchange_type_});
    const Parts mine(share.exchange.in(rows), share.sizes);
    const DeltaWeights of_share = share.of(weights);
    const ops::CausalConv conv{of_share.conv, chain.stretches, result.before, of_share.conv_bias};
    const at::Tensor convolved = ops::causal_conv(mine.convolved, conv);
    const ops::DeltaHeads heads =
        as_heads(convolved, gates_of(mine, of_share.decay), share.sizes, planned_);
    const at::Tensor d_read = share.exchange.parts_in(d_out).unflatten(
        1, {share.sizes.value_heads, share.sizes.value_dim});
    at::Tensor d_last;
    if (chain.slots > 0)
        d_last = last_state_gradients(
            chain, ring_, ops::delta_rule_backward_maps(heads, cut_stretches(chain), d_read),
            sizes.value_dim);

    const at::Tensor d_convolved =
        at::empty(convolved.sizes(), convolved.options().dtype(at::kFloat));
    const ops::DeltaGates d_gates{at::empty(heads.log_decay.sizes(), heads.beta.options()),
                                  at::empty(heads.beta.sizes(), heads.beta.options())};
    const ops::DeltaHeads d_heads = as_heads(d_convolved, d_gates, share.sizes, planned_);
    ops::delta_rule_backward(heads, chain.stretches, {result.first_state, {}, result.between},
                             d_read, d_heads, {d_last});
    if (of_share.skip.defined())
        skip_backward(heads.v, of_share.skip, d_read, d_heads.v,
                      share.of_value_heads(gradients.skip));

    const at::Tensor d_rows =
        at::empty({convolved.size(0), share.sizes.columns()}, d_convolved.options());
    const Parts d_mine(d_rows, share.sizes);
    gates_backward(d_gates, mine, of_share.decay, d_mine, share.decay_of(gradients.decay));
    const auto zeros_if = [&](const at::Tensor& gradient, const at::Tensor& like) {
        return gradient.defined() ? at::zeros(like.sizes(), d_rows.options()) : gradient;
    };
    const at::Tensor d_conv = zeros_if(gradients.conv, conv.weight);
    const at::Tensor d_bias = zeros_if(gradients.conv_bias, conv.bias);
    const at::Tensor d_before = ops::causal_conv_backward(d_convolved, mine.convolved, conv,
                                                          d_mine.convolved, d_conv, d_bias);
    add_gradient_of_rows_before(chain, ring_, d_before, d_mine.convolved);
    share.add_conv(d_conv, gradients.conv);
    share.add_conv(d_bias, gradients.conv_bias);
    return share.exchange.gradient_out(d_rows.to(share.exchange.exchange_type()), sizes.columns());
}

}  // namespace ringshard::attention
