#pragma once

#include <optional>
#include <vector>

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

// A router and its experts: the sum over the experts of a token of weight * down(activation(gate) *
// up), plus the result of an MLP for all tokens, if the block has one. A rank has all experts of
// the block, gathered like other weights; or each rank of a group has equally many, in order, and
// ranks send rows there and back in chunks: one is sent while the experts compute on another. Then
// forward() and backward() are collective over that group.
//
// Or a rank has the experts of one slice of the block at a time: then begin() makes what tokens
// need before their experts, add_slice() takes them through those of each slice, in order, and
// finish() adds what comes after.
class Experts {
public:
    Experts(shard::UnitLayout& unit, const BlockSpec& block);

    // Returns everything but gate and up: backward() recomputes these if the forward pass did not
    // keep them.
    MlpInner inner(const MlpContext& context, const shard::UnitTensors& weights,
                   const at::Tensor& x) const;
    // addend and into as Projection::forward() has them.
    MlpOutput forward(const MlpContext& context, const shard::UnitTensors& weights,
                      const at::Tensor& x, const at::Tensor& addend, const at::Tensor& into) const;
    // Returns the gradient of x; writes over inner.gate_up, or makes gate and up again.
    at::Tensor backward(const MlpContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const MlpInner& inner, const at::Tensor& x) const;
    // Some tokens between the slices.
    struct Sliced {
        at::Tensor x;
        MlpInner inner;
        ops::ExpertRows rows;
        at::Tensor factors;      // of the rows [n, 1]
        at::Tensor sums;         // [t, w] fp32: the results so far, or the gradients of x
        at::Tensor dy{};         // in a backward pass
        at::Tensor d_factors{};  // [n] fp32
    };
    Sliced begin(const MlpContext& context, const shard::UnitTensors& weights,
                 const at::Tensor& x) const;
    // Goes on from a forward pass.
    Sliced begin(const at::Tensor& x, MlpInner inner) const;
    // The weights, and gradients, of the block, with the experts of the slice alone.
    void add_slice(const MlpContext& context, const shard::UnitTensors& weights, const Slice& slice,
                   Sliced& tokens) const;
    // Returns [t, w]. addend and into as Projection::forward() has them.
    at::Tensor finish(const MlpContext& context, const shard::UnitTensors& weights, Sliced& tokens,
                      const at::Tensor& addend, const at::Tensor& into) const;
    void begin_backward(Sliced& tokens, const at::Tensor& dy) const;
    void slice_backward(const MlpContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const Slice& slice,
                        Sliced& tokens) const;
    // Returns the gradient of x.
    at::Tensor finish_backward(const MlpContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, Sliced& tokens) const;

    // Adds the choices and probabilities of tokens to those of the pass.
    void count_choices(const RouterContext& routers, const MlpInner& inner) const;

    // As Mlp has it; the router is inner.
    void add_products(const MadeAgain& again, std::vector<ProductUse>& products) const;
    // The linear layers: a router and experts get adapters as parameters alone.
    std::vector<const Projection*> projections() const;
    std::vector<WeightUse> other_weights() const;

private:
    // Returns the probabilities and the chosen experts.
    MlpInner routed(const MlpContext& context, const shard::UnitTensors& weights,
                    const at::Tensor& x) const;
    // Adds gate and up of the MLP beside the experts, if there is one.
    void add_shared(const MlpContext& context, const shard::UnitTensors& weights,
                    const at::Tensor& x, MlpInner& inner) const;
    // Returns the result of the MLP beside the experts [t, w]; undefined: there is none.
    at::Tensor shared_output(const MlpContext& context, const shard::UnitTensors& weights,
                             const MlpInner& inner) const;
    // Returns the part of the gradient of x that comes from that MLP.
    at::Tensor shared_backward(const MlpContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const MlpInner& inner, const at::Tensor& x) const;
    // Returns [t, e].
    at::Tensor logits(const MlpContext& context, const shard::UnitTensors& weights,
                      const at::Tensor& x) const;
    // Returns the part of the gradient of x that goes through the router. d_weights [t, k] fp32.
    at::Tensor router_backward(const MlpContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& d_weights,
                               const MlpInner& inner, const at::Tensor& x) const;
    // The weight of each row of this rank's tokens [n, 1].
    at::Tensor row_weights(const MlpInner& inner, const ops::ExpertRows& rows,
                           at::ScalarType type) const;

    ExpertsSpec spec_;
    int64_t width_;
    Projection router_;
    std::optional<shard::ParameterId> correction_;  // of the probabilities
    ExpertMlp experts_;
    std::optional<Mlp> shared_;
    std::optional<Projection> shared_gate_;
};

}  // namespace ringshard::model
