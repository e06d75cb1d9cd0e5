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

    const Projection* first_product() const override { return &in_; }
    const Projection* last_product() const override { return &out_; }
    std::vector<const Projection*> projections() const override { return {&in_, &out_}; }

    bool is_projected(const Saved& saved) const override { return saved.has(rows_); }
    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override { return pass.saved[gated_]; }
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;

    void add_costs(StageCosts& costs, bool makes_output_again) const override;
    bool is_projected_again(config::ActivationPolicy policy) const override {
        return !rows_.is_kept(policy);
    }
    void make_cache(LayerCache& cache, int64_t capacity, int64_t texts,
                    const at::TensorOptions& options) const override;
    // Its plans are of the host.
    bool can_be_recorded(const BlockContext&) const override { return false; }

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
    SavedSlot rows_;       // [t, 3 w], as they were projected
    SavedSlot gated_;      // [t, w], the input of the output's projection
    SavedSlot convolved_;  // as in attention::SequenceConv::Result
    SavedSlot before_;
};

}  // namespace ringshard::model
