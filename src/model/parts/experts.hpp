#pragma once

#include <optional>
#include <vector>

#include "expert_adapter.hpp"
#include "mlp.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/routing.hpp"

namespace ringshard::model {

// A router and its experts: the sum over the experts of a token of weight * down(activation(gate) *
// up), and of an MLP through which every token goes, if there is one. A rank has all experts of the
// block, gathered like other weights; or the ranks of a group have equally many each, in order, and
// rows go to them and come back. Then inner(), output() and backward() are collective over that
// group.
class Experts {
public:
    Experts(shard::UnitLayout& unit, const BlockSpec& block);

    MlpInner inner(const MlpContext& context, const shard::UnitTensors& weights,
                   const at::Tensor& x) const;
    // Returns [t, w]. addend and into as Projection::forward() has them.
    at::Tensor output(const MlpContext& context, const shard::UnitTensors& weights,
                      const MlpInner& inner, const at::Tensor& addend = {},
                      const at::Tensor& into = {}) const;
    // Returns the gradient of x; writes over inner.gate_up.
    at::Tensor backward(const MlpContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const MlpInner& inner, const at::Tensor& x) const;
    // Adds the choices and probabilities of tokens to those of the pass.
    void count_choices(const RouterContext& routers, const MlpInner& inner) const;

    // Of a token and the forward pass.
    double inner_operations() const;
    double outer_operations() const;
    // Adapters of linear layers are not for routers and experts (ExpertAdapter).
    std::vector<const Projection*> projections() const;
    std::vector<WeightUse> other_weights() const;

private:
    // Of the experts of this rank, [count, out, in].
    at::Tensor gate_up_of(const shard::UnitTensors& weights) const;
    at::Tensor down_of(const shard::UnitTensors& weights) const;
    // Adds to the gradient of these matrices.
    void add_gradient(const ops::Gemms& gemms, const shard::UnitTensors& gradients,
                      shard::ParameterId matrices, const at::Tensor& dy, const at::Tensor& x,
                      const std::vector<int64_t>& counts) const;
    at::Tensor activated(const at::Tensor& gate_up) const;
    void activated_backward(const at::Tensor& d_product, const at::Tensor& gate_up) const;
    // Biases of the experts of this rank, as a view.
    at::Tensor of_this_rank(const MlpContext& context, const at::Tensor& of_all) const;
    // Returns the result of the MLP beside the experts [t, w]; undefined: there is none.
    at::Tensor shared_output(const MlpContext& context, const shard::UnitTensors& weights,
                             const MlpInner& inner) const;
    // Returns its part of the gradient of x.
    at::Tensor shared_backward(const MlpContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const MlpInner& inner, const at::Tensor& x) const;
    // Returns [t, e].
    at::Tensor logits(const MlpContext& context, const shard::UnitTensors& weights,
                      const at::Tensor& x) const;
    // Returns the part of the gradient of x that goes through the router. d_logits [t, e] fp32.
    at::Tensor router_backward(const MlpContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& d_logits,
                               const at::Tensor& x) const;
    ops::ExpertRows rows_of(const MlpInner& inner) const;
    // The weight of each row of this rank's tokens [n, 1], in the type of the rows.
    at::Tensor row_weights(const MlpInner& inner, const ops::ExpertRows& rows) const;

    ExpertsSpec spec_;
    int64_t width_;
    Projection router_;
    std::optional<shard::ParameterId> correction_;  // of the probabilities
    shard::ParameterId gate_up_;
    shard::ParameterId down_;
    std::optional<shard::ParameterId> gate_up_bias_;  // [count, 2i]
    std::optional<shard::ParameterId> down_bias_;     // [count, w]
    std::optional<ExpertAdapter> gate_up_adapter_;
    std::optional<ExpertAdapter> down_adapter_;
    std::optional<Mlp> shared_;
    std::optional<Projection> shared_gate_;
};

}  // namespace ringshard::model
