#pragma once

#include "../block_context.hpp"
#include "projection.hpp"
#include "ringshard/attention/sequence_delta.hpp"
#include "stage_costs.hpp"

namespace ringshard::model {

// The way of a block's tokens through a state, between the projections of a layer, and the tensors
// that the layer keeps for the backward pass.
class StatePath {
public:
    StatePath(SavedLayout& saved, const attention::DeltaSizes& sizes);

    const attention::DeltaSizes& sizes() const { return sizes_; }
    // As they were projected: what mix() takes, and the gates of the output.
    at::Tensor& rows(Saved& saved) const { return saved[rows_]; }
    bool has_rows(const Saved& saved) const { return saved.has(rows_); }
    const at::Tensor& rows(const Saved& saved) const { return saved[rows_]; }
    const at::Tensor& read(const Saved& saved) const { return saved[read_]; }  // [t, values]

    // mixed [t, columns]. Does nothing where its result was kept. Collective over the sequence
    // group.
    void mix(const Pass& pass, const at::Tensor& mixed,
             const attention::DeltaWeights& weights) const;
    // Returns the gradient of `mixed`, and adds to those of the weights. Collective over the
    // sequence group.
    at::Tensor backward(const BackwardPass& pass, const at::Tensor& mixed,
                        const attention::DeltaWeights& weights,
                        const attention::DeltaWeights& gradients, const at::Tensor& d_read) const;

    // Adds the costs of a layer, those of its projections among them.
    void add_costs(StageCosts& costs, const Projection& in, const Projection& out,
                   bool makes_output_again) const;
    bool is_projected_again(config::ActivationPolicy policy) const {
        return !rows_.is_kept(policy);
    }
    void make_cache(LayerCache& cache, int64_t texts, const at::TensorOptions& options) const;

private:
    attention::SequenceDelta engine(const BlockContext& context) const {
        return {context.sequence.ring, context.sequence.ulysses, context.sequence.options.heads};
    }

    attention::DeltaSizes sizes_;
    SavedSlot rows_;
    SavedSlot read_;
    SavedSlot first_state_;  // as in attention::SequenceDelta::Result
    SavedSlot before_;
    SavedSlot between_;
};

}  // namespace ringshard::model
