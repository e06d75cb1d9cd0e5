#include "mlp.hpp"

#include "ringshard/ops/activation.hpp"

namespace ringshard::model {

namespace {

ProjectionSpec gate_up_of(const BlockSpec& block, const MlpSpec& mlp) {
    ProjectionSpec spec{.layers = {{mlp.up, mlp.intermediate}},
                        .in = block.width,
                        .has_bias = mlp.has_bias,
                        .has_biases_apart = block.has_biases_apart,
                        .adapters = block.adapters,
                        .joint = block.joint};
    if (mlp.is_gated) spec.layers = {{mlp.gate, mlp.intermediate}, {mlp.up, mlp.intermediate}};
    if (mlp.is_fused) spec.layers = {{mlp.gate_up, 2 * mlp.intermediate}};
    return spec;
}

// A vector that decays as matrices do, as transformers has it.
shard::ParameterGroup scalar(const char* name, shard::InitialValues initial) {
    return {.tensors = {{name, {1}}}, .initial = initial, .decays = true};
}

}  // namespace

Mlp::Mlp(shard::UnitLayout& unit, const BlockSpec& block, const MlpSpec& spec)
    : activation_(spec.activation),
      is_gated_(spec.is_gated),
      gate_up_(unit, gate_up_of(block, spec)),
      down_(unit, {.layers = {{spec.down, block.width}},
                   .in = spec.intermediate,
                   .has_bias = spec.has_bias,
                   .adapters = block.adapters,
                   .joint = block.joint}) {
    if (!spec.has_xielu) return;
    alpha_p_ = unit.add(scalar("mlp.act_fn.alpha_p", shard::InitialValues::softplus_0_8));
    alpha_n_ = unit.add(scalar("mlp.act_fn.alpha_n", shard::InitialValues::softplus_0_3));
}

ops::XieluScalars Mlp::scalars_of(const shard::UnitTensors& tensors) const {
    return {tensors[*alpha_p_], tensors[*alpha_n_]};
}

at::Tensor Mlp::activated(const shard::UnitTensors& weights, const at::Tensor& inner) const {
    if (alpha_p_) return ops::xielu(inner, scalars_of(weights));
    return ops::activate(activation_, is_gated_, inner);
}

void Mlp::activated_backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                             const at::Tensor& d_product, const at::Tensor& inner,
                             bool makes_product) const {
    if (alpha_p_)
        ops::xielu_backward(d_product, inner, scalars_of(weights), scalars_of(gradients));
    else
        ops::activate_backward(activation_, is_gated_, d_product, inner, makes_product);
}

MlpInner Mlp::inner(const MlpContext& context, const shard::UnitTensors& weights,
                    const at::Tensor& x) const {
    return {gate_up_.forward(context.projections, weights, x)};
}

at::Tensor Mlp::output(const MlpContext& context, const shard::UnitTensors& weights,
                       const MlpInner& inner, const at::Tensor& addend,
                       const at::Tensor& into) const {
    return down_.forward(context.projections, weights,
                         inner.product.defined() ? inner.product : product(weights, inner), addend,
                         into);
}

MlpOutput Mlp::forward(const MlpContext& context, const shard::UnitTensors& weights,
                       const at::Tensor& x, const at::Tensor& addend,
                       const at::Tensor& into) const {
    MlpInner inner = this->inner(context, weights, x);
    if (context.keeps_product) inner.product = product(weights, inner);
    at::Tensor y = output(context, weights, inner, addend, into);
    return {std::move(inner), std::move(y)};
}

at::Tensor Mlp::backward(const MlpContext& context, const shard::UnitTensors& weights,
                         const shard::UnitTensors& gradients, const at::Tensor& dy,
                         const MlpInner& inner, const at::Tensor& x) const {
    const at::Tensor d_product = down_.backward_input(context.projections, weights, dy);
    const bool is_kept = inner.product.defined();
    activated_backward(weights, gradients, d_product, inner.gate_up, !is_kept);
    const at::Tensor& product = is_kept ? inner.product : d_product;  // written over
    const at::Tensor& d_gate_up = inner.gate_up;                      // written over
    down_.add_gradients(context.projections, weights, gradients, dy, product);
    if (!x.defined()) return gate_up_.backward_input(context.projections, weights, d_gate_up);
    return gate_up_.backward(context.projections, weights, gradients, d_gate_up, x);
}

}  // namespace ringshard::model
