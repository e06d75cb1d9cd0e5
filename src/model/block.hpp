#pragma once

#include <optional>
#include <vector>

#include "parts/attention.hpp"
#include "parts/norm.hpp"
#include "parts/swiglu.hpp"
#include "saved.hpp"

namespace ringshard::model {

// One transformer block, forward and backward: two branches, each added to its input. Dimensions: t
// tokens of this rank, w width, i intermediate.
class Block {
public:
    Block(shard::UnitLayout& unit, const BlockSpec& spec);

    // Returns what a forward pass begins with.
    Saved begin(const at::Tensor& input) const;
    const at::Tensor& input(const Saved& saved) const { return saved[input_]; }
    // Returns the output [t, w]; leaves in `saved` what the policy keeps. Collective over the
    // sequence group.
    at::Tensor forward(const BlockContext& context, const shard::UnitTensors& weights,
                       Saved& saved) const;
    // Adds to the gradients of the weights, and turns `gradient`, that of the output, into that of
    // the input. Collective over the sequence group.
    void backward(const BlockContext& context, const shard::UnitTensors& weights,
                  const shard::UnitTensors& gradients, const at::Tensor& gradient,
                  Saved saved) const;

    Operations operations(config::ActivationPolicy policy) const;
    std::vector<const Projection*> projections() const;

private:
    struct BranchNorms {
        BranchNorms(shard::UnitLayout& unit, const BlockSpec& block, const BranchNormSpec& spec);
        std::optional<Norm> before;
        std::optional<Norm> behind;
    };
    // Some tokens on their way through the MLP.
    struct MlpChunk {
        at::Tensor x;
        at::Tensor inverse_rms;
        at::Tensor gate_up;
        at::Tensor out{};  // before the norm behind, where it was kept
    };

    // Makes, in order, what is missing up to the attention residual: everything in the forward
    // pass, what was not kept in the backward pass.
    void complete(const BlockContext& context, const shard::UnitTensors& weights,
                  Saved& saved) const;
    // Turns the gradient of the attention residual into that of the input.
    void attention_backward(const BlockContext& context, const shard::UnitTensors& weights,
                            const shard::UnitTensors& gradients, const at::Tensor& gradient,
                            const Saved& saved) const;

    // Returns the output. Where gate and up are not kept, the MLP runs in chunks of tokens, so
    // that they never exist for the whole row.
    at::Tensor mlp_forward(const BlockContext& context, const shard::UnitTensors& weights,
                           Saved& saved) const;
    // Turns the gradient of the output into that of the attention residual.
    void mlp_backward(const BlockContext& context, const shard::UnitTensors& weights,
                      const shard::UnitTensors& gradients, const at::Tensor& gradient,
                      const Saved& saved) const;
    MlpChunk make_chunk(const ProjectionContext& context, const shard::UnitTensors& weights,
                        const at::Tensor& attention_residual) const;
    void chunk_backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& attention_residual,
                        const MlpChunk& chunk, const at::Tensor& gradient) const;

    SavedLayout slots_;
    BranchNorms attention_norms_;
    BranchNorms mlp_norms_;
    SavedSlot input_;                  // [t, w]
    SavedSlot attention_inverse_rms_;  // of the norm before the attention
    Attention attention_;
    SavedSlot attention_out_;       // [t, w], before the norm behind the attention
    SavedSlot attention_residual_;  // [t, w]: input + attention
    Swiglu mlp_;
    SavedSlot mlp_inverse_rms_;  // of the norm before the MLP
    SavedSlot gate_up_;          // [t, 2i]
    SavedSlot mlp_out_;          // [t, w], before the norm behind the MLP
};

}  // namespace ringshard::model
