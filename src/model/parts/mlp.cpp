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
                        .matrix = block.matrices};
    if (mlp.is_gated) spec.layers = {{mlp.gate, mlp.intermediate}, {mlp.up, mlp.intermediate}};
    if (mlp.is_fused) spec.layers = {{mlp.gate_up, 2 * mlp.intermediate}};
    return spec;
}

// A vector that decays as matrices do, as transformers has it.
shard::ParameterGroup scalar(const char* name, shard::InitialValues initial) {
    return {.tensors = {{name, {1}}}, .initial = initial, .update = shard::UpdateKind::decaying};
}

}  // namespace

Mlp::Mlp(shard::UnitLayout& unit, SavedLayout& slots, const BlockSpec& block, const MlpSpec& spec,
         const SavedSlot& product)
    : activation_(spec.activation),
      is_gated_(spec.is_gated),
      gate_multiplier_(spec.gate_multiplier),
      intermediate_(static_cast<double>(spec.intermediate)),
      gate_up_projection_(unit, gate_up_of(block, spec)),
      down_(unit, {.layers = {{spec.down, block.width}},
                   .in = spec.intermediate,
                   .has_bias = spec.has_bias,
                   .adapters = block.adapters,
                   .matrix = block.matrices}),
      gate_up_(slots.add(config::ActivationPolicy::all)),
      product_(product) {
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

void Mlp::activated_backward(const BackwardPass& pass, const at::Tensor& d_product,
                             const at::Tensor& inner, bool makes_product) const {
    if (alpha_p_)
        ops::xielu_backward(d_product, inner, scalars_of(pass.weights), scalars_of(pass.gradients));
    else
        ops::activate_backward(activation_, is_gated_, d_product, inner, makes_product);
}

void Mlp::make_inner(const Pass& pass, const at::Tensor& x) const {
    const at::Tensor gate_up =
        gate_up_projection_.forward(pass.context.projections, pass.weights, x);
    scale_gate(gate_up);
    pass.saved[gate_up_] = gate_up;
}

at::Tensor Mlp::backward_inner(const BackwardPass& pass, const at::Tensor& dy) const {
    const ProjectionContext& context = pass.context.projections;
    const at::Tensor d_product = down_.backward_input(context, pass.weights, dy);
    const bool is_kept = pass.saved.has(product_);
    const at::Tensor& gate_up = pass.saved[gate_up_];
    activated_backward(pass, d_product, gate_up, !is_kept);
    const at::Tensor& product = is_kept ? pass.saved[product_] : d_product;  // written over
    const at::Tensor& d_gate_up = gate_up;                                   // written over
    down_.add_gradients(context, pass.weights, pass.gradients, dy, product);
    scale_gate(d_gate_up);
    return d_gate_up;
}

void Mlp::chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                         const LayerInput& input) const {
    input.backward(pass, gate_up_projection_, backward_inner(pass, dy));
}

at::Tensor Mlp::backward_to(const BackwardPass& pass, const at::Tensor& dy,
                            const at::Tensor& x) const {
    return gate_up_projection_.backward(pass.context.projections, pass.weights, pass.gradients,
                                        backward_inner(pass, dy), x);
}

void Mlp::add_costs(StageCosts& costs, const MadeAgain& again, const std::string& prefix) const {
    gate_up_projection_.add_products(prefix + "gate_up", again.inner, costs.products);
    down_.add_products(prefix + "down", again.outer, costs.products);
    const double inner = (is_gated_ ? 2 : 1) * intermediate_;
    const bool keeps_product = product_.is_kept(costs.policy);
    costs.add_rows("SwiGLU, forward", (again.outer ? 2 : 1) * (inner + intermediate_),
                   {"::SwiGluForward"});
    // It reads the product's gradient, and writes that of gate and up, and the product.
    costs.add_rows("SwiGLU, backward", 2 * inner + (keeps_product ? 1 : 2) * intermediate_,
                   {"::SwiGluBackward"});
    costs.rows_of_host += passes_of_host * intermediate_;
}

}  // namespace ringshard::model
