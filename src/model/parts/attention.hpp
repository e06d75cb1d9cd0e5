#pragma once

#include <optional>
#include <vector>

#include "../block_context.hpp"
#include "../saved.hpp"
#include "norm.hpp"
#include "projection.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// Causal attention within documents, between two projections. Its forward pass is project(),
// attend(), output(), its backward pass output_backward(), project_backward(): the block drops and
// makes again what it keeps between them.
class Attention {
public:
    Attention(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block);

    bool is_projected(const Saved& saved) const { return saved[qkv_].defined(); }
    // Makes queries, keys and values of x [t, w]: normed by heads, turned to their positions.
    void project(const BlockContext& context, const shard::UnitTensors& weights,
                 const at::Tensor& x, Saved& saved) const;
    // Does nothing where its result was kept. Collective over the sequence group.
    void attend(const BlockContext& context, Saved& saved) const;
    // Returns [t, w].
    at::Tensor output(const BlockContext& context, const shard::UnitTensors& weights,
                      const Saved& saved) const;

    // Returns the gradient of queries, keys and values as they were projected. Collective over the
    // sequence group.
    at::Tensor output_backward(const BlockContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const Saved& saved) const;
    // Returns the gradient of x.
    at::Tensor project_backward(const BlockContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& d_qkv,
                                const at::Tensor& x) const;

    // `keeps_output`: the block keeps what it makes of output().
    Operations operations(config::ActivationPolicy policy, bool keeps_output) const;
    std::vector<const Projection*> projections() const { return {&qkv_projection_, &out_}; }

private:
    // Turns queries and keys to their positions, or their gradients back. In place.
    void rotate(const BlockContext& context, const at::Tensor& heads, ops::Turn turn) const;
    // By their positions, in place; gradients too.
    void scale_queries(const BlockContext& context, const at::Tensor& heads) const;

    attention::HeadCounts heads_;
    attention::Mask mask_;
    Projection qkv_projection_;  // rows of qkv: query heads, key heads, value heads
    Projection out_;
    std::vector<HeadNorm> head_norms_;
    bool norms_rotated_heads_;
    std::optional<size_t> rope_;
    SavedSlot qkv_;   // [t, qkv_width]
    SavedSlot seen_;  // [t, h d], the attention's result
    SavedSlot lse_;
};

}  // namespace ringshard::model
