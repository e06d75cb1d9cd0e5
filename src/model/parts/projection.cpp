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
    at::Tensor y =
        ops::linear(context.gemms, x, weights[weight_], bias_ ? weights[*bias_] : at::Tensor());
    if (low_rank_) low_rank_->forward(context, weights, x, y);
    return y;
}

at::Tensor Projection::backward(const ProjectionContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& dy,
                                const at::Tensor& x) const {
    ops::add_weight_gradient(context.gemms, gradients[weight_], dy, x);
    if (bias_) ops::add_bias_gradient(gradients[*bias_], dy);
    at::Tensor dx = ops::linear_backward_input(context.gemms, dy, weights[weight_]);
    if (!low_rank_) return dx;
    const at::Tensor d_inner = low_rank_->inner_gradient(context, weights, dy);
    low_rank_->add_gradients(context, weights, gradients, dy, d_inner, x);
    low_rank_->add_input_gradient(context, weights, d_inner, dx);
    return dx;
}

at::Tensor Projection::backward_input(const ProjectionContext& context,
                                      const shard::UnitTensors& weights,
                                      const at::Tensor& dy) const {
    at::Tensor dx = ops::linear_backward_input(context.gemms, dy, weights[weight_]);
    if (low_rank_)
        low_rank_->add_input_gradient(context, weights,
                                      low_rank_->inner_gradient(context, weights, dy), dx);
    return dx;
}

void Projection::add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const at::Tensor& x) const {
    ops::add_weight_gradient(context.gemms, gradients[weight_], dy, x);
    if (bias_) ops::add_bias_gradient(gradients[*bias_], dy);
    if (low_rank_)
        low_rank_->add_gradients(context, weights, gradients, dy,
                                 low_rank_->inner_gradient(context, weights, dy), x);
}

}  // namespace ringshard::model
