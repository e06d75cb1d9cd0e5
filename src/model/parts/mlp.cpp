#include "mlp.hpp"

#include "ringshard/ops/activation.hpp"

namespace ringshard::model {

namespace {

ProjectionSpec gate_up_of(const BlockSpec& block) {
    const MlpSpec& mlp = block.mlp;
    ProjectionSpec spec{.layers = {{mlp.up, mlp.intermediate}},
                        .in = block.width,
                        .has_bias = mlp.has_bias,
                        .adapters = block.adapters,
                        .joint = block.joint};
    if (mlp.is_gated)
        spec.layers = {{"mlp.gate_proj", mlp.intermediate}, {mlp.up, mlp.intermediate}};
    if (mlp.is_fused) spec.layers = {{"mlp.gate_up_proj", 2 * mlp.intermediate}};
    return spec;
}

}  // namespace

Mlp::Mlp(shard::UnitLayout& unit, const BlockSpec& block)
    : activation_(block.mlp.activation),
      is_gated_(block.mlp.is_gated),
      gate_up_(unit, gate_up_of(block)),
      down_(unit, {.layers = {{block.mlp.down, block.width}},
                   .in = block.mlp.intermediate,
                   .has_bias = block.mlp.has_bias,
                   .adapters = block.adapters,
                   .joint = block.joint}) {}

MlpInner Mlp::inner(const MlpContext& context, const shard::UnitTensors& weights,
                    const at::Tensor& x) const {
    return {gate_up_.forward(context.projections, weights, x)};
}

at::Tensor Mlp::output(const MlpContext& context, const shard::UnitTensors& weights,
                       const MlpInner& inner) const {
    return down_.forward(context.projections, weights,
                         ops::activate(activation_, is_gated_, inner.gate_up));
}

at::Tensor Mlp::backward(const MlpContext& context, const shard::UnitTensors& weights,
                         const shard::UnitTensors& gradients, const at::Tensor& dy,
                         const MlpInner& inner, const at::Tensor& x) const {
    const at::Tensor d_product = down_.backward_input(context.projections, weights, dy);
    ops::activate_backward(activation_, is_gated_, d_product, inner.gate_up);
    const at::Tensor& product = d_product;        // written over
    const at::Tensor& d_gate_up = inner.gate_up;  // written over
    down_.add_gradients(context.projections, weights, gradients, dy, product);
    return gate_up_.backward(context.projections, weights, gradients, d_gate_up, x);
}

}  // namespace ringshard::model
