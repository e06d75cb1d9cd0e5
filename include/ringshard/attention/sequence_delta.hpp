#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ringshard/attention/plan.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/ops/delta_gates.hpp"
#include "ringshard/ops/delta_rule.hpp"

namespace ringshard::attention {

// Key heads divide value heads; each of the latter has a state [key_dim, value_dim].
struct DeltaSizes {
    int64_t key_heads = 0;
    int64_t value_heads = 0;
    int64_t key_dim = 0;
    int64_t value_dim = 0;
    ops::StateRule rule = ops::StateRule::delta;

    int64_t keys() const { return key_heads * key_dim; }
    int64_t values() const { return value_heads * value_dim; }
    int64_t convolved() const { return 2 * keys() + values(); }
    int64_t columns() const { return convolved() + betas() + decays(); }
    // A row has queries, keys, values, b and a; with the additive rule values, keys, queries and a.
    bool is_additive() const { return rule == ops::StateRule::additive; }
    int64_t first_query() const { return is_additive() ? values() + keys() : 0; }
    int64_t first_key() const { return is_additive() ? values() : keys(); }
    int64_t first_value() const { return is_additive() ? 0 : 2 * keys(); }
    int64_t betas() const { return is_additive() ? 0 : value_heads; }
    int64_t decays() const { return value_heads * decays_of_head(); }
    int64_t decays_of_head() const { return rule == ops::StateRule::delta_by_row ? key_dim : 1; }
    // In the terms of why_heads_do_not_split().
    HeadCounts heads() const { return {value_heads, key_heads, value_dim}; }
};

// Weights, or their gradients: fp32, and undefined where nothing is trained.
struct DeltaWeights {
    at::Tensor conv;  // [convolved, 1, rows_before + 1]
    ops::DecayWeights decay;
    at::Tensor conv_bias{};  // [convolved]
    at::Tensor skip{};  // [value heads]: the share of its value that each token adds to its output
};

// A causal convolution and linear attention, exact within documents, over a sequence that is split
// as that of SequenceAttention. Ulysses exchanges tokens for heads. Each rank of a ring makes a map
// of each of its stretches; all exchange these, and each finds the states in which its stretches
// begin. The bytes sent do not grow with the tokens.
class SequenceDelta {
public:
    // exchange: the type in which Ulysses ranks exchange heads; by default that of the computation.
    // planned: what meta tensors stand for.
    SequenceDelta(comm::Communicator& ring, comm::Communicator& ulysses,
                  std::optional<at::ScalarType> exchange = {},
                  c10::DeviceType planned = c10::DeviceType::CPU)
        : ring_(ring), ulysses_(ulysses), exchange_type_(exchange), planned_(planned) {}

    struct Result {
        at::Tensor out;          // [t, values] for this rank's tokens, of the type of the rows
        at::Tensor first_state;  // [stretches, this rank's heads, key_dim, value_dim] fp32, for the
                                 // backward pass; undefined where every stretch begins a document
        at::Tensor before;       // [stretches, rows_before, this rank's columns of the convolution]
        at::Tensor between;      // ops::DeltaStates
    };
    // rows [t, columns] may lie apart. Collective over the sequence group.
    Result forward(const DeltaSizes& sizes, const at::Tensor& rows, const DeltaWeights& weights,
                   const Plan& plan) const;
    // The gradient of the rows; adds to those of the weights. Collective over the sequence group.
    at::Tensor backward(const DeltaSizes& sizes, const at::Tensor& rows,
                        const DeltaWeights& weights, const Result& result, const at::Tensor& d_out,
                        const DeltaWeights& gradients, const Plan& plan) const;

private:
    comm::Communicator& ring_;
    comm::Communicator& ulysses_;
    std::optional<at::ScalarType> exchange_type_;
    c10::DeviceType planned_;
};

}  // namespace ringshard::attention
