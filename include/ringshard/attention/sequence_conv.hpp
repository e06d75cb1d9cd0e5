#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ringshard/attention/plan.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::attention {

// Weights, or their gradients: fp32, and undefined where nothing is trained.
struct ShortConvWeights {
    at::Tensor conv;    // [c, 1, taps], at most rows_before + 1 of them
    at::Tensor bias{};  // [c]
};

// A short causal convolution between two gates, out * conv(in * x), exact within documents, over a
// sequence that is split as that of SequenceAttention. Each rank of a ring sends the last rows of
// its stretches, and Ulysses exchanges tokens for columns.
class SequenceConv {
public:
    // exchange: the type in which Ulysses ranks exchange columns; by default that of the rows.
    SequenceConv(comm::Communicator& ring, comm::Communicator& ulysses,
                 std::optional<at::ScalarType> exchange = {})
        : ring_(ring), ulysses_(ulysses), exchange_type_(exchange) {}

    struct Result {
        at::Tensor out;        // [t, c] for this rank's tokens, of the type of the rows
        at::Tensor convolved;  // [t, c], before the gate `out`
        at::Tensor before;     // [stretches, rows_before, this rank's columns]
    };
    // rows [t, 3 c]: the gates `in`, the gates `out`, and x. Collective over the sequence group.
    Result forward(const at::Tensor& rows, const ShortConvWeights& weights, const Plan& plan) const;
    // The gradient of the rows; adds to those of the weights. Collective over the sequence group.
    at::Tensor backward(const at::Tensor& rows, const ShortConvWeights& weights,
                        const Result& result, const at::Tensor& d_out,
                        const ShortConvWeights& gradients, const Plan& plan) const;

private:
    comm::Communicator& ring_;
    comm::Communicator& ulysses_;
    std::optional<at::ScalarType> exchange_type_;
};

// As delta_cached(), of which it needs the rows before.
at::Tensor conv_cached(const at::Tensor& rows, const ShortConvWeights& weights, const Plan& plan,
                       const at::Tensor& before);

}  // namespace ringshard::attention
