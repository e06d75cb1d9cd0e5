#pragma once

#include <vector>

#include "feed_forward.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// down(activation(gate) * e), of the rows e that the block gets of the embeddings of layers.
class LayerEmbedding : public FeedForward {
public:
    LayerEmbedding(shard::UnitLayout& unit, SavedLayout& slots, const BlockSpec& block,
                   const LayerEmbeddingSpec& spec);

    std::vector<const Projection*> projections() const override { return {&gate_, &down_}; }
    bool keeps_inner(config::ActivationPolicy policy) const override {
        return inner_.is_kept(policy);
    }
    void add_costs(StageCosts& costs, const MadeAgain& again) const override;

protected:
    bool has_inner(const Saved& saved) const override { return saved.has(inner_); }
    void make_inner(const Pass& pass, const at::Tensor& x) const override;
    at::Tensor make_rows(const Pass& pass, const at::Tensor& x) const override;
    void chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                        const LayerInput& input) const override;

private:
    int64_t width_;
    ops::Activation activation_;
    Projection gate_;
    Projection down_;
    SavedSlot inner_;  // [t, 2 width]: a row is gate, then e
};

}  // namespace ringshard::model
