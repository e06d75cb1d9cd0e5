#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "parts/experts.hpp"
#include "parts/mixer.hpp"
#include "parts/mlp.hpp"
#include "parts/norm.hpp"
#include "saved.hpp"

namespace ringshard::model {

// One transformer block, forward and backward: two branches, each added to its input. Input, output
// and their gradients are the residual stream, which may be in fp32 beside branches in bf16
// (BlockContext::branch_type). Dimensions: t tokens of this rank, w width, i intermediate.
class Block {
public:
    Block(shard::UnitLayout& unit, const BlockSpec& spec);

    // Returns the state with which a forward pass begins.
    Saved begin(const at::Tensor& input) const;
    const at::Tensor& input(const Saved& saved) const { return saved[input_]; }
    // Returns the output [t, w]; leaves in `saved` the activations that the policy keeps.
    // Collective over the sequence group.
    at::Tensor forward(const BlockContext& context, const shard::UnitTensors& weights,
                       Saved& saved) const;
    // Adds to the gradients of the weights, and turns `gradient`, that of the output, into that of
    // the input. Collective over the sequence group.
    void backward(const BlockContext& context, const shard::UnitTensors& weights,
                  const shard::UnitTensors& gradients, const at::Tensor& gradient,
                  Saved saved) const;

    // The products of a token, and the operations of the passes forward with their sums.
    std::vector<ProductUse> products(config::ActivationPolicy policy) const;
    Operations operations(config::ActivationPolicy policy) const;
    // Linear layers, which take adapters.
    std::vector<const Projection*> projections() const;
    // All weights that rows are multiplied with.
    std::vector<WeightUse> weights() const;

private:
    struct BranchNorms {
        BranchNorms(shard::UnitLayout& unit, const BlockSpec& block, const BranchNormSpec& spec);
        std::optional<Norm> before;
        std::optional<Norm> behind;
    };
    // The activations of some tokens in the MLP.
    struct MlpChunk {
        at::Tensor x;  // undefined: the backward pass of the norm makes it again
        at::Tensor inverse_rms;
        MlpInner inner;
        at::Tensor out{};  // before the norm behind; with the residual if the product adds it
    };

    // Makes, in order, the missing activations up to the attention residual: all in the forward
    // pass, those not kept in the backward pass. Returns an undefined tensor, or the input where
    // the residual is the branch alone so far: make_chunk() adds the input as it norms the sum.
    at::Tensor complete(const BlockContext& context, const shard::UnitTensors& weights,
                        Saved& saved) const;
    // Adds the branch's part to the gradient of the input. d_branch: of the branch's result.
    void attention_backward(const BlockContext& context, const shard::UnitTensors& weights,
                            const shard::UnitTensors& gradients, const at::Tensor& d_branch,
                            const at::Tensor& gradient, const Saved& saved) const;
    // The input of the MLP's branch, and the norm before it.
    const at::Tensor& mlp_input(const Saved& saved) const {
        return saved[is_parallel_ ? input_ : attention_residual_];
    }
    bool norms_the_sum() const {
        return !is_parallel_ && mlp_norms_.before && mlp_norms_.before->can_add();
    }
    const std::optional<Norm>& before_mlp() const {
        return is_parallel_ && !mlp_norms_.before ? attention_norms_.before : mlp_norms_.before;
    }
    // Returns true if the last product of a branch adds the residual.
    bool adds_in_product(const BranchNorms& norms, const at::Tensor& rows) const;
    // Returns branch * multiplier + residual, of the type of the residual: in `into` or, if that is
    // undefined, over the branch if it has this type.
    at::Tensor add_branch(at::Tensor branch, const at::Tensor& residual,
                          const at::Tensor& into = {}) const;
    // Returns the gradient of a branch, from that of the sum.
    at::Tensor branch_gradient(const BranchType& type, const at::Tensor& gradient) const;

    MlpInner inner_of_mlp(const MlpContext& context, const shard::UnitTensors& weights,
                          const at::Tensor& x) const;
    // addend and into as Projection::forward() has them.
    MlpOutput forward_of_mlp(const MlpContext& context, const shard::UnitTensors& weights,
                             const at::Tensor& x, const at::Tensor& addend = {},
                             const at::Tensor& into = {}) const;
    // Returns the residual and the branch: in `into`, unless that is undefined. out: of
    // make_chunk() with the same residual and `into`.
    at::Tensor add_mlp(const shard::UnitTensors& weights, at::Tensor out,
                       const at::Tensor& residual, const at::Tensor& into) const;

    // Returns the output. Where gate and up are not kept, the MLP runs in chunks of tokens, so
    // that they never exist for the whole row. addend: of complete().
    at::Tensor mlp_forward(const BlockContext& context, const shard::UnitTensors& weights,
                           Saved& saved, const at::Tensor& addend) const;
    // Turns `gradient`, that of the output, into that of the branch's input and the addend of the
    // branch: adds the branch's part.
    void mlp_backward(const BlockContext& context, const shard::UnitTensors& weights,
                      const shard::UnitTensors& gradients, const at::Tensor& gradient,
                      const Saved& saved, const at::Tensor& addend) const;
    // The same where a rank gathers the experts in slices: all tokens go through the experts of one
    // slice before it gathers the next, in the turns in which they would go through all experts.
    struct SlicedTurn {
        int64_t begin;
        int64_t length;
        MlpContext context;
        at::Tensor inverse_rms{};
        Experts::Sliced tokens{};

        at::Tensor of(const at::Tensor& rows) const {
            return rows.defined() ? rows.narrow(0, begin, length) : rows;
        }
    };
    std::vector<SlicedTurn> sliced_turns(const BlockContext& context, int64_t tokens, bool is_whole,
                                         RowNorms& norms) const;
    at::Tensor forward_in_slices(const BlockContext& context, const shard::UnitTensors& weights,
                                 Saved& saved, const at::Tensor& addend) const;
    at::Tensor finish_turn(const shard::UnitTensors& weights, SlicedTurn& turn,
                           const at::Tensor& residual, const at::Tensor& into) const;
    void backward_in_slices(const BlockContext& context, const shard::UnitTensors& weights,
                            const shard::UnitTensors& gradients, const at::Tensor& gradient,
                            const Saved& saved, const at::Tensor& addend) const;
    // Keeps what the policy asks for of all tokens.
    void keep_inner(const BlockContext& context, const at::Tensor& x, const at::Tensor& inverse_rms,
                    const MlpInner& inner, Saved& saved) const;
    MlpInner kept_inner(const Saved& saved) const;

    // addend: is added to the input, in place; or undefined.
    ops::RmsNormed normed_for_mlp(const BranchType& type, const shard::UnitTensors& weights,
                                  const at::Tensor& input, const at::Tensor& addend) const;
    // Counts the choices of experts.
    MlpChunk make_chunk(const MlpContext& context, const shard::UnitTensors& weights,
                        const at::Tensor& input, const at::Tensor& addend,
                        const at::Tensor& residual, const at::Tensor& into) const;
    // For a backward pass, where nothing was kept; `out` is there if a norm is behind it.
    MlpChunk make_chunk_again(MlpContext context, const shard::UnitTensors& weights,
                              const at::Tensor& input, const at::Tensor& addend) const;
    void chunk_backward(const MlpContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& input,
                        const MlpChunk& chunk, const at::Tensor& gradient) const;

    bool is_parallel_;
    double residual_multiplier_;
    SavedLayout slots_;
    BranchNorms attention_norms_;
    BranchNorms mlp_norms_;
    SavedSlot input_;                  // [t, w]
    SavedSlot attention_inverse_rms_;  // of the norm before the attention
    SavedSlot attention_normed_;       // [t, w], the result of that norm
    std::unique_ptr<const Mixer> mixer_;
    SavedSlot attention_out_;       // [t, w], before the norm behind the attention
    SavedSlot attention_residual_;  // [t, w]: input + attention
    std::variant<Mlp, Experts> mlp_;
    SavedSlot mlp_inverse_rms_;  // of the norm before the MLP
    SavedSlot mlp_normed_;       // [t, w]
    SavedSlot gate_up_;          // [t, 2i]
    SavedSlot probabilities_;    // [t, e], of experts
    SavedSlot experts_;          // [t, k]
    SavedSlot arrivals_;         // of rows, where ranks share experts
    SavedSlot shared_;           // [t, 2i], of the MLP beside experts
    SavedSlot shared_gate_;      // [t, 1]
    SavedSlot product_;          // [t, i], of an MLP without experts
    SavedSlot mlp_out_;          // [t, w], before the norm behind the MLP
};

}  // namespace ringshard::model
