#include "low_rank.hpp"

#include <ATen/ops/empty.h>

#include "ringshard/base/mix.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/dropout.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

std::optional<LowRank> LowRank::of(shard::UnitLayout& unit, const ProjectionSpec& spec) {
    shard::ParameterGroup all_a{.tensors = {}, .is_adapter = true};
    for (const auto& [name, out] : spec.layers)
        if (const auto found = spec.adapters.find(name); found != spec.adapters.end())
            all_a.tensors.push_back(
                {concat(name, ".lora_A.weight"), {found->second.rank, spec.in}});
    if (all_a.tensors.empty()) return std::nullopt;
    LowRank made(unit.add(all_a));
    int64_t column = 0;
    for (const auto& [name, out] : spec.layers) {
        if (const auto found = spec.adapters.find(name); found != spec.adapters.end()) {
            const AdapterSpec& adapter = found->second;
            const shard::ParameterId b =
                unit.add({.tensors = {{concat(name, ".lora_B.weight"), {out, adapter.rank}}},
                          .initial = shard::InitialValues::zeros,
                          .is_adapter = true,
                          .is_adapter_output = true});
            made.layers_.push_back({b, column, out, made.rank_, adapter.rank, adapter.scaling});
            made.rank_ += adapter.rank;
            made.dropout_ = adapter.dropout;
            made.operations_ += 2 * static_cast<double>(adapter.rank * (spec.in + out));
        }
        column += out;
    }
    made.salt_ = mix_bits(hash_text(concat(unit.prefix(), spec.layers.front().name)));
    return made;
}

at::Tensor LowRank::dropped(const ProjectionContext& context, const at::Tensor& x) const {
    if (dropout_ == 0 || !context.dropout_keys.defined()) return x;
    return ops::dropout(x, {context.dropout_keys, salt_, dropout_});
}

void LowRank::forward(const ProjectionContext& context, const shard::UnitTensors& weights,
                      const at::Tensor& x, const at::Tensor& y) const {
    const at::Tensor inner = ops::linear(context.gemms, dropped(context, x), weights[a_]);
    for (const Layer& layer : layers_)
        y.narrow(1, layer.column, layer.out)
            .add_(ops::linear(context.gemms, inner.narrow(1, layer.first, layer.rank),
                              weights[layer.b]),
                  layer.scaling);
}

at::Tensor LowRank::inner_gradient(const ProjectionContext& context,
                                   const shard::UnitTensors& weights, const at::Tensor& dy) const {
    at::Tensor d_inner = at::empty({dy.size(0), rank_}, dy.options());
    for (const Layer& layer : layers_)
        d_inner.narrow(1, layer.first, layer.rank)
            .copy_(ops::linear_backward_input(context.gemms, dy.narrow(1, layer.column, layer.out),
                                              weights[layer.b])
                       .mul_(layer.scaling));
    return d_inner;
}

void LowRank::add_input_gradient(const ProjectionContext& context,
                                 const shard::UnitTensors& weights, const at::Tensor& d_inner,
                                 const at::Tensor& dx) const {
    dx.add_(dropped(context, ops::linear_backward_input(context.gemms, d_inner, weights[a_])));
}

void LowRank::add_gradients(const ProjectionContext& context, const shard::UnitTensors& weights,
                            const shard::UnitTensors& gradients, const at::Tensor& dy,
                            const at::Tensor& d_inner, const at::Tensor& x) const {
    const at::Tensor seen = dropped(context, x);
    ops::add_weight_gradient(context.gemms, gradients[a_], d_inner, seen);
    const at::Tensor inner = ops::linear(context.gemms, seen, weights[a_]);
    for (const Layer& layer : layers_)
        ops::add_weight_gradient(context.gemms, gradients[layer.b],
                                 dy.narrow(1, layer.column, layer.out),
                                 inner.narrow(1, layer.first, layer.rank).mul(layer.scaling));
}

}  // namespace ringshard::model
