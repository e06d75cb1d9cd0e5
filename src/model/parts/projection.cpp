#include "projection.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

namespace {

int64_t width_of(const std::vector<ProjectionSpec::Layer>& layers) {
    int64_t width = 0;
    for (const ProjectionSpec::Layer& layer : layers) width += layer.out;
    return width;
}

shard::ParameterGroup weights_of(const ProjectionSpec& spec) {
    shard::ParameterGroup group;
    for (const auto& [name, out] : spec.layers)
        group.tensors.push_back({concat(name, ".weight"), {out, spec.in}});
    return group;
}

shard::ParameterGroup biases_of(const ProjectionSpec& spec) {
    shard::ParameterGroup group{{}, shard::InitialValues::zeros};
    for (const auto& [name, out] : spec.layers)
        group.tensors.push_back({concat(name, ".bias"), {out}});
    return group;
}

}  // namespace

Projection::Projection(shard::UnitLayout& unit, const ProjectionSpec& spec)
    : shape_{width_of(spec.layers), spec.in}, weight_(unit.add(weights_of(spec))) {
    if (spec.has_bias) bias_ = unit.add(biases_of(spec));
    low_rank_ = LowRank::of(unit, spec);
}

at::Tensor Projection::forward(const ProjectionContext& context, const shard::UnitTensors& weights,
                               const at::Tensor& x) const {
    const at::Tensor bias = bias_ ? weights[*bias_] : at::Tensor();
    if (!low_rank_) return ops::linear(context.gemms, x, weights[weight_], bias);
    // Magnitudes scale what is computed without the bias.
    const bool bias_follows = low_rank_->has_magnitudes();
    const LowRank::Operands operands{context, weights, weights[weight_]};
    at::Tensor y = ops::linear(context.gemms, x, operands.base, bias_follows ? at::Tensor() : bias);
    low_rank_->forward(operands, x, y);
    return bias_follows && bias.defined() ? y.add_(bias) : y;
}

at::Tensor Projection::backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& dy,
                                const at::Tensor& x) const {
    add_base_gradients(context, gradients, dy, x);
    if (!low_rank_) return ops::linear_backward_input(context.gemms, dy, weights[weight_]);
    const LowRank::Operands operands{context, weights, weights[weight_]};
    const LowRank::Gradient gradient = low_rank_->begin_backward(operands, dy);
    low_rank_->add_gradients(operands, gradients, gradient, x);
    return low_rank_->input_gradient(operands, gradient);
}

at::Tensor Projection::backward_input(const ProjectionContext& context,
                                      const shard::UnitTensors& weights,
                                      const at::Tensor& dy) const {
    if (!low_rank_) return ops::linear_backward_input(context.gemms, dy, weights[weight_]);
    const LowRank::Operands operands{context, weights, weights[weight_]};
    return low_rank_->input_gradient(operands, low_rank_->begin_backward(operands, dy));
}

void Projection::add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const at::Tensor& x) const {
    add_base_gradients(context, gradients, dy, x);
    if (!low_rank_) return;
    const LowRank::Operands operands{context, weights, weights[weight_]};
    low_rank_->add_gradients(operands, gradients, low_rank_->begin_backward(operands, dy), x);
}

void Projection::add_base_gradients(const ProjectionContext& context,
                                    const shard::UnitTensors& gradients, const at::Tensor& dy,
                                    const at::Tensor& x) const {
    ops::add_weight_gradient(context.gemms, gradients[weight_], dy, x);
    if (bias_) ops::add_bias_gradient(gradients[*bias_], dy);
}

}  // namespace ringshard::model
