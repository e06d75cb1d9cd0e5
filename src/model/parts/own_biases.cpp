#include "own_biases.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

OwnBiases::OwnBiases(shard::UnitLayout& unit, const ProjectionSpec& spec, size_t number) {
    const NamedAdapter& adapter = spec.adapters.at(number);
    int64_t column = 0;
    for (const ProjectionSpec::Layer& layer : spec.layers) {
        if (adapter.own.contains(layer.name))
            layers_.push_back(
                {unit.add({.tensors = {{format_text("{}.bias.{}", layer.name, adapter.name),
                                        {layer.out}}},
                           .is_made_by_run = true,
                           .update = shard::UpdateKind::at_own_rate,
                           .variant = number}),
                 column, layer.out});
        column += layer.out;
    }
}

void OwnBiases::replace(const shard::UnitTensors& weights, const at::Tensor& frozen,
                        const at::Tensor& y) const {
    for (const Layer& layer : layers_)
        y.narrow(1, layer.column, layer.out)
            .add_(weights[layer.bias].to(at::kFloat) -
                  frozen.narrow(0, layer.column, layer.out).to(at::kFloat));
}

void OwnBiases::add_gradients(const shard::UnitTensors& gradients, const at::Tensor& dy) const {
    for (const Layer& layer : layers_)
        ops::add_bias_gradient(gradients[layer.bias],
                               dy.narrow(1, layer.column, layer.out).contiguous());
}

}  // namespace ringshard::model
