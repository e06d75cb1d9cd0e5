#pragma once

#include "../block_context.hpp"
#include "../saved.hpp"
#include "projection.hpp"
#include "ringshard/attention/sequence_delta.hpp"

namespace ringshard::model {

// The way of a block's tokens through a state, between the projections of a layer, and the tensors
// that the layer keeps for the backward pass.
class StatePath {
public:
    StatePath(SavedLayout& saved, const attention::DeltaSizes& sizes);

    const attention::DeltaSizes& sizes() const { return sizes_; }
    // As they were projected: what mix() takes, and the gates of the output.
    at::Tensor& rows(Saved& saved) const { return saved[rows_]; }
    const at::Tensor& rows(const Saved& saved) const { return saved[rows_]; }
    const at::Tensor& read(const Saved& saved) const { return saved[read_]; }  // [t, values]

    // mixed [t, columns]. Does nothing where its result was kept. Collective over the sequence
    // group.
    void mix(const BlockContext& context, const at::Tensor& mixed,
             const attention::DeltaWeights& weights, Saved& saved) const;
    // Returns the gradient of `mixed`, and adds to those of the weights. Collective over the
    // sequence group.
    at::Tensor backward(const BlockContext& context, const at::Tensor& mixed,
                        const attention::DeltaWeights& weights,
                        const attention::DeltaWeights& gradients, const at::Tensor& d_read,
                        const Saved& saved) const;

    // Returns the products of a layer, those of its projections among them.
    std::vector<ProductUse> products(config::ActivationPolicy policy, const Projection& in,
                                     const Projection& out, bool keeps_output) const;

private:
    attention::DeltaSizes sizes_;
    SavedSlot rows_;
    SavedSlot read_;
    SavedSlot first_state_;  // as in attention::SequenceDelta::Result
    SavedSlot before_;
    SavedSlot between_;
};

}  // namespace ringshard::model
