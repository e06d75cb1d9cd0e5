#pragma once

#include <vector>

#include "projection.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// down(activation(gate) * up), or down(activation(up)).
class Mlp {
public:
    Mlp(shard::UnitLayout& unit, const BlockSpec& block);

    // Returns [t, 2i]: a row is gate, then up. Without a gate, [t, i].
    at::Tensor gate_up(const ProjectionContext& context, const shard::UnitTensors& weights,
                       const at::Tensor& x) const;
    // Returns [t, w].
    at::Tensor output(const ProjectionContext& context, const shard::UnitTensors& weights,
                      const at::Tensor& gate_up) const;
    // Returns the gradient of x; writes over gate_up.
    at::Tensor backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                        const shard::UnitTensors& gradients, const at::Tensor& dy,
                        const at::Tensor& gate_up, const at::Tensor& x) const;

    // Of a token and the forward pass.
    double inner_operations() const { return gate_up_.operations(); }
    double outer_operations() const { return down_.operations(); }
    std::vector<const Projection*> projections() const { return {&gate_up_, &down_}; }

private:
    ops::Activation activation_;
    bool is_gated_;
    Projection gate_up_;
    Projection down_;
};

}  // namespace ringshard::model
