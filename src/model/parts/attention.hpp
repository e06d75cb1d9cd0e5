#pragma once

#include <optional>
#include <vector>

#include "mixer.hpp"
#include "norm.hpp"
#include "projection.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// Causal attention within documents, between two projections.
class Attention : public Mixer {
public:
    Attention(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
              const AttentionSpec& spec);

    std::vector<const Projection*> projections() const override {
        return {&qkv_projection_, &out_};
    }

    // Makes queries, keys and values [t, qkv_width] of x [t, w]: normed by heads, turned to their
    // positions.
    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override;
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;

    void add_costs(StageCosts& costs, bool makes_output_again) const override;
    void make_cache(LayerCache& cache, int64_t capacity, int64_t texts,
                    const at::TensorOptions& options) const override;
    std::set<std::string> operators(const BlockContext& context, at::ScalarType type,
                                    at::Device device) const override;
    bool can_be_recorded(const BlockContext& context) const override;

private:
    attention::SequenceAttention engine(const BlockContext& context) const;
    // Returns the gradient of the projected rows, from that of the output.
    at::Tensor rows_gradient(const BackwardPass& pass, at::Tensor dy) const;
    bool has_gates() const { return kind_of_gates_ != HeadGates::none; }
    // Takes the gates out of projected rows, and puts their gradient back.
    at::Tensor split_gates(const at::Tensor& rows, Saved& saved) const;
    at::Tensor with_gates(const at::Tensor& d_qkv, const at::Tensor& d_gates) const;
    // Returns an undefined tensor for a layer without sinks.
    at::Tensor sinks_of(const shard::UnitTensors& tensors) const {
        return sinks_ ? tensors[*sinks_] : at::Tensor();
    }
    bool has_narrow_values() const { return value_dim_ < heads_.head_dim; }
    bool has_other_values() const { return has_narrow_values() || value_factor_ != 1; }
    // Leaves values without the zeros behind them in heads, or puts these there.
    at::Tensor narrowed(const at::Tensor& rows, int64_t heads) const;
    at::Tensor widened(const at::Tensor& rows, int64_t heads) const;
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
        return head_norms_.empty() && !norms_rotated_heads_ && !has_gates() &&
               !is_fused_by_heads_ && !values_are_keys_ && !has_other_values() && !shared_keys_ &&
               !context.positions.query_scale;
    }
    // Turns queries and keys to their positions, or their gradients back. In place.
    void rotate(const BlockContext& context, const at::Tensor& heads, ops::Turn turn) const;

    // Returns queries [t, h d] with the keys and values of the group; or keeps these for it.
    at::Tensor with_shared_keys(const BlockContext& context, const at::Tensor& heads) const;
    // Adds the gradient of shared keys and values to that of the group, and returns the queries'
    // alone; or takes that of the group.
    at::Tensor share_gradient(const BlockContext& context, const at::Tensor& d_qkv) const;
    int64_t query_width() const { return heads_.query_heads * heads_.head_dim; }

    attention::HeadCounts heads_;
    attention::Mask mask_;
    std::optional<SharedKeys> shared_keys_;
    bool has_keys_;              // of its own
    Projection qkv_projection_;  // rows of qkv: query heads, key heads, value heads
    Projection out_;
    std::vector<HeadNorm> head_norms_;
    bool is_fused_by_heads_;
    bool values_are_keys_;
    int64_t value_dim_;
    double value_factor_;
    bool norms_rotated_heads_;
    std::optional<size_t> rope_;
    HeadGates kind_of_gates_;
    ops::ScoreForm scores_;
    std::optional<shard::ParameterId> sinks_;
    SavedSlot seen_;  // [t, h d], the attention's result
    SavedSlot lse_;
    SavedSlot gates_;  // [t, h d] or [t, h]
};

}  // namespace ringshard::model
