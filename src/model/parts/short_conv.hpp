#pragma once

#include <optional>
#include <vector>

#include "mixer.hpp"
#include "ringshard/attention/sequence_conv.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// A gated short convolution, between two projections. It keeps the last rows of a text where other
// mixers have a state.
class ShortConv : public Mixer {
public:
    ShortConv(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
              const ShortConvSpec& spec);

    std::vector<const Projection*> projections() const override { return {&in_, &out_}; }

    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override { return pass.saved[gated_]; }
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;

    void add_costs(StageCosts& costs, bool makes_output_again) const override;
    void make_cache(LayerCache& cache, int64_t capacity, int64_t texts,
                    const at::TensorOptions& options) const override;

private:
    attention::SequenceConv engine(const BlockContext& context) const {
        return {context.sequence.ring, context.sequence.ulysses, context.sequence.options.heads};
    }
    attention::ShortConvWeights weights_of(const shard::UnitTensors& weights) const;

    ShortConvSpec spec_;
    Projection in_;
    shard::ParameterId conv_;
    std::optional<shard::ParameterId> conv_bias_;
    Projection out_;
    SavedSlot
        gated_;  // [t, w], of the projected rows [t, 3 w]: the input of the output's projection
    SavedSlot convolved_;  // as in attention::SequenceConv::Result
    SavedSlot before_;
};

}  // namespace ringshard::model
