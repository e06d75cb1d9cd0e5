#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ringshard/attention/plan.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/ops/delta_gates.hpp"

namespace ringshard::attention {

// Key heads divide value heads; each of the latter has a state [key_dim, value_dim].
struct DeltaSizes {
    int64_t key_heads = 0;
    int64_t value_heads = 0;
    int64_t key_dim = 0;
    int64_t value_dim = 0;

    int64_t keys() const { return key_heads * key_dim; }
    int64_t values() const { return value_heads * value_dim; }
    int64_t convolved() const { return 2 * keys() + values(); }
    int64_t columns() const { return convolved() + 2 * value_heads; }
    // In the terms of why_heads_do_not_split().
    HeadCounts heads() const { return {value_heads, key_heads, value_dim}; }
};

// Weights, or their gradients: fp32, and undefined where nothing is trained.
struct DeltaWeights {
    at::Tensor conv;  // [convolved, 1, rows_before + 1]
    ops::DecayWeights decay;
};

// A causal convolution and the gated delta rule, exact within documents, over a sequence that is
// split as that of SequenceAttention. Ulysses exchanges tokens for heads. Each rank of a ring makes
// a map of each of its stretches; all exchange these, and each finds the states in which its
// stretches begin: what is sent does not grow with the tokens.
class SequenceDelta {
public:
    // exchange: the type in which Ulysses ranks exchange heads; by default that of the computation.
    SequenceDelta(comm::Communicator& ring, comm::Communicator& ulysses,
                  std::optional<at::ScalarType> exchange = {})
        : ring_(ring), ulysses_(ulysses), exchange_type_(exchange) {}

    struct Result {
        at::Tensor out;          // [t, values] for this rank's tokens, of the type of the rows
        at::Tensor first_state;  // [stretches, this rank's heads, key_dim, value_dim] fp32, for the
                                 // backward pass; undefined where every stretch begins a document
        at::Tensor before;       // [stretches, rows_before, this rank's columns of the convolution]
    };
    // rows [t, columns]: queries, keys, values, then b and a of every value head; they may lie
    // apart. Collective over the sequence group.
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
};

}  // namespace ringshard::attention
