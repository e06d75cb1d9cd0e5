#pragma once

#include "mixer.hpp"
#include "ringshard/attention/sequence_delta.hpp"

namespace ringshard::model {

// A mixer of one product before and one behind the way of a block's tokens through a state.
class StateMixer : public Mixer {
public:
    void add_costs(StageCosts& costs, bool makes_output_again) const override;
    void make_cache(LayerCache& cache, int64_t capacity, int64_t texts,
                    const at::TensorOptions& options) const override;

protected:
    StateMixer(SavedLayout& saved, const attention::DeltaSizes& sizes);

    // columns [t, n], of the rows that project() makes. Does nothing where its result was kept.
    // Collective over the sequence group.
    void read_states(const Pass& pass, const at::Tensor& columns,
                     const attention::DeltaWeights& weights) const;
    // Returns the gradient of `columns`, and adds to those of the weights. Collective over the
    // sequence group.
    at::Tensor columns_backward(const BackwardPass& pass, const at::Tensor& columns,
                                const attention::DeltaWeights& weights,
                                const attention::DeltaWeights& gradients,
                                const at::Tensor& d_read) const;

    attention::DeltaSizes sizes_;
    SavedSlot read_;  // [t, values]

private:
    attention::SequenceDelta engine(const BlockContext& context) const {
        return {context.sequence.ring, context.sequence.ulysses, context.sequence.options.heads,
                context.sequence.device};
    }

    SavedSlot first_state_;  // as in attention::SequenceDelta::Result
    SavedSlot before_;
    SavedSlot between_;
};

}  // namespace ringshard::model
