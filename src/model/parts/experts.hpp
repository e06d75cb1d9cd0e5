#pragma once

#include <optional>
#include <vector>

#include "expert_adapter.hpp"
#include "mlp.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/routing.hpp"

namespace ringshard::model {

// A router and its experts: the sum over the experts of a token of weight * down(activation(gate) *
// up). A rank has all experts of the block, gathered like other weights; or the ranks of a group
// have equally many each, in order, and rows go to them and come back. Then inner(), output() and
// backward() are collective over that group.
class Experts {
public:
    Experts(shard::UnitLayout& unit, const BlockSpec& block);

    MlpInner inner(const MlpContext& context, const shard::UnitTensors& weights,
                   const at::Tensor& x) const;
    // Returns [t, w].
    at::Tensor output(const MlpContext& context, const shard::UnitTensors& weights,
                      const MlpInner& inner) const;
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
    std::vector<const Projection*> projections() const { return {}; }
    std::vector<WeightUse> other_weights() const;

private:
    // Of the experts of this rank, [count, out, in].
    at::Tensor gate_up_of(const shard::UnitTensors& tensors) const;
    at::Tensor down_of(const shard::UnitTensors& tensors) const;
    // The weight of each row of this rank's tokens [n, 1], in the type of the rows.
    at::Tensor row_weights(const MlpInner& inner, const ops::ExpertRows& rows) const;

    ExpertsSpec spec_;
    int64_t width_;
    Projection router_;
    shard::ParameterId gate_up_;
    shard::ParameterId down_;
    std::optional<ExpertAdapter> gate_up_adapter_;
    std::optional<ExpertAdapter> down_adapter_;
};

}  // namespace ringshard::model
