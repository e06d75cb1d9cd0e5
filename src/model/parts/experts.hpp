#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "expert_exchange.hpp"
#include "expert_mlp.hpp"
#include "mlp.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/routing.hpp"

namespace ringshard::model {

// One of equal slices of the experts of a block, in order.
struct Slice {
    int64_t number;
    int64_t count;  // of slices
};

// The rows of the experts of a slice: side by side, in the order of the experts.
struct SliceRows {
    int64_t first;
    int64_t count;
    int64_t first_expert;
    std::vector<int64_t> counts;

    at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, first, count); }
};

// A router and its experts: the sum over the experts of a token of weight * down(activation(gate) *
// up), plus the result of an MLP for all tokens, if the block has one. A rank has all experts of
// the block, gathered like other weights; or each rank of a group has equally many, in order, and
// ranks send rows there and back in chunks: one is sent while the experts compute on another. Then
// forward() and backward() are collective over that group. Or a rank gathers the experts in slices:
// all tokens go through the experts of one slice before it gathers the next.
class Experts : public FeedForward {
public:
    // stream: the residual stream that the layer reads.
    Experts(shard::UnitLayout& unit, SavedLayout& slots, const BlockSpec& block,
            const ExpertsSpec& spec, const SavedSlot& stream);

    const Projection* first_product() const override { return nullptr; }
    const Projection* last_product() const override { return nullptr; }
    // The linear layers: a router and experts get adapters as parameters alone.
    std::vector<const Projection*> projections() const override;
    std::vector<WeightUse> other_weights() const override;
    bool keeps_inner(config::ActivationPolicy policy) const override {
        return gate_up_.is_kept(policy);
    }

    void forward(std::span<TokenChunk> chunks, const Pass& all, const LayerInput& input,
                 const Finish& finish) const override;
    void backward(std::span<TokenChunk> chunks, const BackwardPass& all, const LayerInput& input,
                  const Addition& addition) const override;
    // The router is inner.
    void add_costs(StageCosts& costs, const MadeAgain& again) const override;

protected:
    bool has_inner(const Saved& saved) const override { return saved.has(probabilities_); }
    // Makes all but gate and up: a backward pass makes these if nothing kept them.
    void make_inner(const Pass& pass, const at::Tensor& x) const override;
    at::Tensor make_rows(const Pass& pass, const at::Tensor& x) const override;
    // Adds the choices and probabilities of tokens to those of the pass.
    void end_forward(const Pass& pass, const at::Tensor& rows) const override;
    void chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                        const LayerInput& input) const override;

private:
    // Some tokens between the slices.
    struct Sliced {
        at::Tensor x;
        ops::ExpertRows rows;
        at::Tensor factors;      // of the rows [n, 1]
        at::Tensor sums;         // [t, w] fp32: the results so far, or the gradients of x
        at::Tensor dy{};         // in a backward pass
        at::Tensor d_factors{};  // [n] fp32
    };
    void forward_in_slices(std::span<TokenChunk> chunks, const Pass& all, const LayerInput& input,
                           const Finish& finish) const;
    void backward_in_slices(std::span<TokenChunk> chunks, const BackwardPass& all,
                            const LayerInput& input, const Addition& addition) const;
    Sliced begin_slices(const Pass& pass, at::Tensor x) const;
    void add_slice(const Pass& pass, const shard::UnitTensors& of_slice, const Slice& slice,
                   Sliced& tokens) const;
    at::Tensor finish_slices(const Pass& pass, Sliced& tokens) const;
    void slice_backward(const Pass& pass, const shard::UnitTensors& of_slice,
                        const shard::UnitTensors& gradients, const Slice& slice,
                        Sliced& tokens) const;
    // Of the rows of one adapter.
    void rows_backward(const Pass& pass, const shard::UnitTensors& gradients, const SliceRows& here,
                       const ExpertMlp::Rows& rows, Sliced& tokens) const;
    // Returns the gradient of x.
    at::Tensor finish_backward(const BackwardPass& pass, Sliced& tokens) const;

    // Sends rows to their experts and back, and returns the gradient of x.
    at::Tensor x_gradient(const BackwardPass& pass, const at::Tensor& dy,
                          const at::Tensor& x) const;
    // Makes the probabilities and the chosen experts.
    void route(const Pass& pass, const at::Tensor& x) const;
    // Makes gate and up of the MLP beside the experts, if there is one.
    void make_shared(const Pass& pass, const at::Tensor& x) const;
    // Returns the result of the MLP beside the experts, if there is one [t, w].
    at::Tensor shared_output(const Pass& pass) const;
    // Returns the part of the gradient of x that comes from that MLP.
    at::Tensor shared_backward(const BackwardPass& pass, const at::Tensor& dy,
                               const at::Tensor& x) const;
    // Returns [t, e].
    at::Tensor logits(const Pass& pass, const at::Tensor& x) const;
    // Rows of a router that reads the stream, or their gradient.
    at::Tensor by_width(const at::Tensor& rows) const;
    // Adds the gradient of the rows that the router reads to dx, or to that of the stream.
    void add_router_gradient(const BackwardPass& pass, const at::Tensor& d_rows,
                             const at::Tensor& dx) const;
    // The scale of each expert of a token [t, k], fp32.
    at::Tensor scales_of(const Pass& pass) const;
    // Returns the gradient of the weights without their scales, and adds that of the scales.
    at::Tensor scales_backward(const BackwardPass& pass, const at::Tensor& d_weights) const;
    // Returns the gradient of the rows that the router reads. d_factors: of the rows of experts.
    at::Tensor router_backward(const BackwardPass& pass, const at::Tensor& d_factors,
                               const ops::ExpertRows& rows, const at::Tensor& of_layer) const;
    // The weight of each row of this rank's tokens [n, 1].
    at::Tensor row_weights(const Pass& pass, const ops::ExpertRows& rows,
                           at::ScalarType type) const;

    ExpertsSpec spec_;
    int64_t width_;
    Projection router_;
    std::unique_ptr<const NormedRows> router_input_;   // of the stream; null: the router reads x
    std::optional<shard::ParameterId> expert_scales_;  // [e]
    std::optional<shard::ParameterId> correction_;     // of the probabilities
    ExpertMlp experts_;
    std::unique_ptr<const Mlp> shared_;
    std::optional<Projection> shared_gate_;
    // [m, 2i]: the rows of the experts of this rank, chunk by chunk, expert by expert.
    SavedSlot gate_up_;
    SavedSlot probabilities_;     // [t, e] fp32
    SavedSlot chosen_;            // [t, k] int64
    SavedSlot arrivals_;          // ExpertExchange's
    SavedSlot shared_gate_rows_;  // [t, 1], before its sigmoid
};

}  // namespace ringshard::model
