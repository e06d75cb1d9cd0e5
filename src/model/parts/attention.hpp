#pragma once

#include <optional>
#include <vector>

#include "../block_context.hpp"
#include "../saved.hpp"
#include "mixer.hpp"
#include "norm.hpp"
#include "projection.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// Causal attention within documents, between two projections.
class Attention : public Mixer {
public:
    Attention(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block);

    bool is_projected(const Saved& saved) const override { return saved[qkv_].defined(); }
    // Makes queries, keys and values of x [t, w]: normed by heads, turned to their positions.
    void project(const BlockContext& context, const shard::UnitTensors& weights,
                 const at::Tensor& x, Saved& saved) const override;
    void mix(const BlockContext& context, const shard::UnitTensors& weights,
             Saved& saved) const override;
    at::Tensor output(const BlockContext& context, const shard::UnitTensors& weights,
                      const Saved& saved, const at::Tensor& addend) const override;
    at::Tensor output_backward(const BlockContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const Saved& saved) const override;
    at::Tensor project_backward(const BlockContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& d_rows,
                                const at::Tensor& x) const override;
    bool adds_gradients_last() const override;
    void add_project_gradients(const BlockContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& d_rows,
                               const at::Tensor& x) const override;
    std::vector<ProductUse> products(config::ActivationPolicy policy,
                                     bool keeps_output) const override;
    std::map<attention::Mask, Operations::OfPair> pairs(
        config::ActivationPolicy policy) const override;
    std::vector<const Projection*> projections() const override {
        return {&qkv_projection_, &out_};
    }

private:
    // Takes the gates out of projected rows, and puts their gradient back.
    at::Tensor split_gates(const at::Tensor& rows, Saved& saved) const;
    at::Tensor with_gates(const at::Tensor& d_qkv, const at::Tensor& d_gates) const;
    // Returns an undefined tensor for a layer without sinks.
    at::Tensor sinks_of(const shard::UnitTensors& tensors) const {
        return sinks_ ? tensors[*sinks_] : at::Tensor();
    }
    // Returns the input of the output's projection.
    at::Tensor gated(const Saved& saved) const;
    // Moves queries, keys and values from the places in which the projection has them to one after
    // the other, and gradients back.
    at::Tensor deal(const at::Tensor& projected) const;
    at::Tensor deal_backward(const at::Tensor& d_qkv) const;
    // Returns the part of what project() does behind the projection that attention's backward pass
    // undoes.
    attention::GradientFinish finish_of(const BlockContext& context,
                                        const shard::UnitTensors& gradients) const;
    // True if attention's backward pass has added the gradient of the projection's bias.
    BiasGradient bias_gradient(const BlockContext& context) const;
    // Returns true if the rows of qkv, but for their positions, are those of the projection.
    bool has_projected_rows(const BlockContext& context) const {
        return head_norms_.empty() && !norms_rotated_heads_ && !is_gated_ && !is_fused_by_heads_ &&
               !context.positions.query_scale.defined();
    }
    // Turns queries and keys to their positions, or their gradients back. In place.
    void rotate(const BlockContext& context, const at::Tensor& heads, ops::Turn turn) const;
    // By their positions, in place; gradients too.
    void scale_queries(const BlockContext& context, const at::Tensor& heads) const;

    attention::HeadCounts heads_;
    attention::Mask mask_;
    Projection qkv_projection_;  // rows of qkv: query heads, key heads, value heads
    Projection out_;
    std::vector<HeadNorm> head_norms_;
    bool is_fused_by_heads_;
    bool norms_rotated_heads_;
    std::optional<size_t> rope_;
    bool is_gated_;
    std::optional<shard::ParameterId> sinks_;
    SavedSlot qkv_;   // [t, qkv_width]
    SavedSlot seen_;  // [t, h d], the attention's result
    SavedSlot lse_;
    SavedSlot gates_;  // [t, h d]
};

}  // namespace ringshard::model
