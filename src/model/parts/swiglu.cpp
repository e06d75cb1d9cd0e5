#include "swiglu.hpp"

#include "ringshard/ops/swiglu.hpp"

namespace ringshard::model {

namespace {

ProjectionSpec gate_up_of(const BlockSpec& block) {
    const int64_t intermediate = block.mlp.intermediate;
    if (block.mlp.is_fused)
        return {.layers = {{"mlp.gate_up_proj", 2 * intermediate}},
                .in = block.width,
                .adapters = block.adapters};
    return {.layers = {{"mlp.gate_proj", intermediate}, {"mlp.up_proj", intermediate}},
            .in = block.width,
            .adapters = block.adapters};
}

}  // namespace

Swiglu::Swiglu(shard::UnitLayout& unit, const BlockSpec& block)
    : gate_up_(unit, gate_up_of(block)),
      down_(unit, {.layers = {{"mlp.down_proj", block.width}},
                   .in = block.mlp.intermediate,
                   .adapters = block.adapters}) {}

at::Tensor Swiglu::gate_up(const ProjectionContext& context, const shard::UnitTensors& weights,
                           const at::Tensor& x) const {
    return gate_up_.forward(context, weights, x);
}

at::Tensor Swiglu::output(const ProjectionContext& context, const shard::UnitTensors& weights,
                          const at::Tensor& gate_up) const {
    return down_.forward(context, weights, ops::swiglu(gate_up));
}

at::Tensor Swiglu::backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                            const shard::UnitTensors& gradients, const at::Tensor& dy,
                            const at::Tensor& gate_up, const at::Tensor& x) const {
    const at::Tensor d_product = down_.backward_input(context, weights, dy);
    ops::swiglu_backward(d_product, gate_up);
    const at::Tensor& product = d_product;  // written over
    const at::Tensor& d_gate_up = gate_up;  // written over
    down_.add_gradients(context, weights, gradients, dy, product);
    return gate_up_.backward(context, weights, gradients, d_gate_up, x);
}

}  // namespace ringshard::model
