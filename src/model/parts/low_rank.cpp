#include "low_rank.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include "ringshard/base/mix.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/dropout.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/row_norms.hpp"
#include "weight_product.hpp"

namespace ringshard::model {

std::string matrix_name(const char* matrix, const std::string& adapter) {
    return format_text("{}{}{}.weight", matrix, adapter.empty() ? "" : ".", adapter);
}

namespace {

std::string magnitude_name(const std::string& adapter) {
    return format_text("lora_magnitude_vector{}{}", adapter.empty() ? "" : ".", adapter);
}

std::string bias_name(const std::string& adapter) {
    return format_text("lora_B.bias{}{}", adapter.empty() ? "" : ".", adapter);
}

// Columns become row x (columns - bias + factor x update) + bias, rounded once from fp32. Where
// inputs were dropped, `of_base` has the columns of these, and row x of_base takes the place of row
// x columns: columns + (row - 1) x of_base + factor x row x update. Conversions are explicit:
// inside of an operator, a plan would not count their memory.
void scale_sum(const at::Tensor& columns, const std::optional<at::Tensor>& bias,
               const std::optional<at::Tensor>& of_base, const at::Tensor& update, double factor,
               const at::Tensor& row) {
    const at::Tensor sum = columns.to(at::kFloat);
    if (of_base) {
        sum.add_(of_base->to(at::kFloat).mul_(row - 1));
        sum.add_(update.to(at::kFloat).mul_(row), factor);
    } else {
        if (bias) sum.sub_(bias->to(at::kFloat));
        sum.add_(update.to(at::kFloat), factor).mul_(row);
        if (bias) sum.add_(bias->to(at::kFloat));
    }
    if (!sum.is_same(columns)) columns.copy_(sum);
}

// Multiplies columns of any type by a row of fp32.
void scale_columns(const at::Tensor& columns, const at::Tensor& row) {
    const at::Tensor scaled = columns.to(at::kFloat).mul_(row);
    if (!scaled.is_same(columns)) columns.copy_(scaled);
}

}  // namespace

std::optional<LowRank> LowRank::of(shard::UnitLayout& unit, const ProjectionSpec& spec,
                                   size_t number) {
    const auto& [name, layers, own] = spec.adapters.at(number);
    shard::ParameterGroup all_a{.tensors = {}, .is_made_by_run = true, .variant = number};
    for (const ProjectionSpec::Layer& layer : spec.layers)
        if (const auto found = layers.find(layer.adapter_name()); found != layers.end())
            all_a.tensors.push_back(
                {format_text("{}.{}", layer.adapter_name(), matrix_name("lora_A", name)),
                 {found->second.rank, spec.in}});
    if (all_a.tensors.empty()) return std::nullopt;
    LowRank made(unit.add(all_a));
    int64_t column = 0;
    for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
        made.add_layer(unit, spec, number, layer, column);
        column += spec.layers[layer].out;
    }
    return made;
}

void LowRank::add_layer(shard::UnitLayout& unit, const ProjectionSpec& spec, size_t number,
                        size_t layer, int64_t column) {
    const auto& [learner, layers, own] = spec.adapters.at(number);
    const std::string& name = spec.layers[layer].adapter_name();
    const int64_t out = spec.layers[layer].out;
    const auto found = layers.find(name);
    if (found == layers.end()) return;
    const AdapterSpec& adapter = found->second;
    const shard::ParameterId b =
        unit.add({.tensors = {{format_text("{}.{}", name, matrix_name("lora_B", learner)),
                               {out, adapter.rank}}},
                  .initial = shard::InitialValues::zeros,
                  .is_made_by_run = true,
                  .update = shard::UpdateKind::decaying_at_own_rate,
                  .variant = number});
    std::optional<shard::ParameterId> magnitude;
    if (adapter.has_magnitude)
        magnitude =
            unit.add({.tensors = {{format_text("{}.{}", name, magnitude_name(learner)), {out}}},
                      .initial = shard::InitialValues::ones,
                      .placement = {.codec = shard::Codec::fp32},
                      .is_made_by_run = true,
                      .update = shard::UpdateKind::decaying_at_own_rate,
                      .variant = number});
    std::optional<shard::ParameterId> bias;
    if (adapter.has_bias)
        bias = unit.add({.tensors = {{format_text("{}.{}", name, bias_name(learner)), {out}}},
                         .initial = shard::InitialValues::zeros,
                         .is_made_by_run = true,
                         .update = shard::UpdateKind::at_own_rate,
                         .variant = number});
    const uint64_t salt = mix_bits(hash_text(concat(unit.prefix(), name)));
    layers_.push_back({b, magnitude, bias, column, out, rank_, adapter.rank, adapter.scaling, salt,
                       mix_bits(salt, number)});
    rank_ += adapter.rank;
    dropout_ = adapter.dropout;
    has_magnitudes_ = has_magnitudes_ || adapter.has_magnitude;
    operations_ += 2 * static_cast<double>(adapter.rank * (spec.in + out));
    if (!adapter.has_magnitude) return;
    // The product of W with dropped rows, or for the gradient of the magnitudes.
    (dropout_ > 0 ? operations_ : more_operations_backward_) +=
        2 * static_cast<double>(spec.in * out);
}

at::Tensor LowRank::dropped(const ProjectionContext& context, const Layer& layer,
                            const at::Tensor& x) const {
    return drops(context) ? ops::dropout(x, mask_of(context, layer)) : x;
}

// Undefined where the gradient of a frozen A is.
at::Tensor LowRank::a_of(const shard::UnitTensors& tensors, const Layer& layer) const {
    const at::Tensor all = tensors[a_];
    return all.defined() ? all.narrow(0, layer.first, layer.rank) : all;
}

at::Tensor LowRank::norms_of(const Operands& operands, const Layer& layer) const {
    const auto find = [&] {
        return ops::row_norms(
            operands.base.narrow(0, layer.column, layer.out),
            {operands.weights[layer.b], a_of(operands.weights, layer), layer.scaling});
    };
    if (operands.context.norms == nullptr) return find();
    const auto [shared, is_new] = operands.context.norms->try_emplace(layer.norms_key);
    if (is_new) shared->second = find();
    return shared->second;
}

void LowRank::forward(const Operands& operands, const at::Tensor& x, const at::Tensor& bias,
                      const at::Tensor& y) const {
    const auto& [context, weights, base] = operands;
    const bool drops = this->drops(context);
    const at::Tensor inner = drops ? at::Tensor() : ops::linear(context.gemms, x, weights[a_]);
    for (const Layer& layer : layers_) {
        const at::Tensor seen = dropped(context, layer, x);
        const at::Tensor columns = y.narrow(1, layer.column, layer.out);
        const at::Tensor of_layer = drops ? ops::linear(context.gemms, seen, a_of(weights, layer))
                                          : inner.narrow(1, layer.first, layer.rank);
        if (!layer.magnitude) {
            of_layer.mul_(layer.scaling);
            ops::add_linear(context.gemms, columns, of_layer, weights[layer.b]);
            if (layer.bias) columns.add_(weights[*layer.bias], layer.scaling);
            continue;
        }
        const at::Tensor update = ops::linear(context.gemms, of_layer, weights[layer.b]);
        const at::Tensor scale = weights[*layer.magnitude] / norms_of(operands, layer);
        std::optional<at::Tensor> of_base;
        if (drops)
            of_base = ops::linear(context.gemms, seen, base.narrow(0, layer.column, layer.out));
        std::optional<at::Tensor> of_bias;
        if (bias.defined()) of_bias = bias.narrow(0, layer.column, layer.out);
        scale_sum(columns, of_bias, of_base, update, layer.scaling, scale);
    }
}

LowRank::Gradient LowRank::begin_backward(const Operands& operands, const at::Tensor& dy,
                                          const at::Tensor& scaled) const {
    const auto& [context, weights, base] = operands;
    Gradient gradient{.y = dy,
                      .scaled = scaled,
                      .inner = at::empty({dy.size(0), rank_}, dy.options()),
                      .norms = {}};
    for (const Layer& layer : layers_) {
        const at::Tensor columns = gradient.scaled.narrow(1, layer.column, layer.out);
        gradient.norms.push_back(layer.magnitude ? norms_of(operands, layer) : at::Tensor());
        if (layer.magnitude)
            scale_columns(columns, weights[*layer.magnitude] / gradient.norms.back());
        gradient.inner.narrow(1, layer.first, layer.rank)
            .copy_(ops::linear_backward_input(context.gemms, columns, weights[layer.b])
                       .mul_(layer.scaling));
    }
    return gradient;
}

// Returns the gradient of the dropped inputs of a layer.
at::Tensor LowRank::dropped_input_gradient(const Operands& operands, const Gradient& gradient,
                                           const Layer& layer) const {
    const auto& [context, weights, base] = operands;
    at::Tensor of_layer = ops::linear_backward_input(
        context.gemms, gradient.inner.narrow(1, layer.first, layer.rank), a_of(weights, layer));
    if (layer.magnitude)
        of_layer.add_(
            ops::linear_backward_input(context.gemms,
                                       gradient.scaled.narrow(1, layer.column, layer.out) -
                                           gradient.y.narrow(1, layer.column, layer.out),
                                       base.narrow(0, layer.column, layer.out)));
    return of_layer;
}

void LowRank::add_input_gradient(const Operands& operands, const Gradient& gradient,
                                 const at::Tensor& dx) const {
    const auto& [context, weights, base] = operands;
    if (drops(context)) {
        for (const Layer& layer : layers_)
            ops::add_dropout(dx, dropped_input_gradient(operands, gradient, layer),
                             mask_of(context, layer));
    } else if (has_magnitudes_) {  // rounded as PEFT rounds it, which bf16 curves show
        dx.add_(ops::linear_backward_input(context.gemms, gradient.inner, weights[a_]));
    } else {
        ops::add_linear_backward_input(context.gemms, dx, gradient.inner, weights[a_]);
    }
}

// `seen`: the inputs of the layer, as dropout leaves them. `inner`: the product of A with them.
void LowRank::add_output_gradients(const Operands& operands, const shard::UnitTensors& gradients,
                                   const Gradient& gradient, size_t i, const at::Tensor& seen,
                                   const at::Tensor& inner) const {
    const auto& [context, weights, base] = operands;
    const Layer& layer = layers_[i];
    const at::Tensor of_layer = inner.mul(layer.scaling);
    const at::Tensor columns = gradient.scaled.narrow(1, layer.column, layer.out);
    ops::add_weight_gradient(context.gemms, gradients[layer.b], columns, of_layer);
    if (layer.bias && gradients.has(*layer.bias))
        gradients[*layer.bias].add_(columns.sum(at::IntArrayRef{0}, false, at::kFloat),
                                    layer.scaling);
    if (!layer.magnitude || !gradients.has(*layer.magnitude)) return;
    at::Tensor product =
        ops::linear(context.gemms, seen, base.narrow(0, layer.column, layer.out)).to(at::kFloat);
    product.add_(ops::linear(context.gemms, of_layer, weights[layer.b]).to(at::kFloat))
        .mul_(gradient.y.narrow(1, layer.column, layer.out).to(at::kFloat));
    gradients[*layer.magnitude].add_(product.sum(0).div_(gradient.norms[i]));
}

void LowRank::add_gradients_of_dropped(const Operands& operands,
                                       const shard::UnitTensors& gradients,
                                       const Gradient& gradient, size_t i,
                                       const at::Tensor& seen) const {
    const Layer& layer = layers_[i];
    const ops::Gemms& gemms = operands.context.gemms;
    ops::add_weight_gradient(gemms, a_of(gradients, layer),
                             gradient.inner.narrow(1, layer.first, layer.rank), seen);
    add_output_gradients(operands, gradients, gradient, i, seen,
                         ops::linear(gemms, seen, a_of(operands.weights, layer)));
}

void LowRank::add_gradients(const Operands& operands, const shard::UnitTensors& gradients,
                            const Gradient& gradient, const at::Tensor& x) const {
    const auto& [context, weights, base] = operands;
    if (drops(context)) {
        for (size_t i = 0; i < layers_.size(); ++i)
            add_gradients_of_dropped(operands, gradients, gradient, i,
                                     ops::dropout(x, mask_of(context, layers_[i])));
        return;
    }
    ops::add_weight_gradient(context.gemms, gradients[a_], gradient.inner, x);
    const at::Tensor inner = ops::linear(context.gemms, x, weights[a_]);
    for (size_t i = 0; i < layers_.size(); ++i)
        add_output_gradients(operands, gradients, gradient, i, x,
                             inner.narrow(1, layers_[i].first, layers_[i].rank));
}

void LowRank::add_all_gradients(const Operands& operands, const shard::UnitTensors& gradients,
                                const Gradient& gradient, const at::Tensor& x,
                                const at::Tensor& dx) const {
    if (!drops(operands.context)) {
        add_gradients(operands, gradients, gradient, x);
        return add_input_gradient(operands, gradient, dx);
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
        const at::Tensor seen =
            ops::dropout_and_add(x, dx, dropped_input_gradient(operands, gradient, layers_[i]),
                                 mask_of(operands.context, layers_[i]));
        add_gradients_of_dropped(operands, gradients, gradient, i, seen);
    }
}

}  // namespace ringshard::model
