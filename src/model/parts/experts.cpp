#include "experts.hpp"

#include <ATen/ops/ones_like.h>

#include "expert_exchange.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/activation.hpp"
#include "ringshard/ops/grouped_linear.hpp"

namespace ringshard::model {

namespace {

// The tensors of all experts, in their order: one matrix for each.
shard::ParameterGroup tensors_of(const ExpertsSpec& spec, const std::vector<std::string>& layers,
                                 const std::vector<int64_t>& shape) {
    shard::ParameterGroup group;
    group.is_of_experts = true;
    for (int64_t expert = 0; expert < spec.count; ++expert)
        for (const std::string& layer : layers)
            group.tensors.push_back(
                {concat(spec.experts, ".", expert, ".", layer, ".weight"), shape});
    return group;
}

// Nothing where the matrix of the experts has no adapter.
std::optional<ExpertAdapter> adapter_of(shard::UnitLayout& unit, const BlockSpec& block,
                                        const char* parameter, const std::vector<int64_t>& shape) {
    const auto found = block.adapters.find(parameter);
    if (found == block.adapters.end()) return std::nullopt;
    return ExpertAdapter(unit, expert_adapter_prefix(block, parameter), found->second,
                         block.experts->count, shape);
}

// rows: of an expert.
at::Tensor by_expert(const at::Tensor& matrix, int64_t rows) {
    if (!matrix.defined()) return matrix;  // a gradient of frozen weights
    return matrix.view({matrix.size(0) / rows, rows, matrix.size(1)});
}

}  // namespace

Experts::Experts(shard::UnitLayout& unit, const BlockSpec& block)
    : spec_(block.experts.value()),
      width_(block.width),
      router_(unit, {.layers = {{spec_.router, spec_.count}}, .in = width_}),
      gate_up_(unit.add(tensors_of(spec_, {spec_.gate, spec_.up}, {spec_.intermediate, width_}))),
      down_(unit.add(tensors_of(spec_, {spec_.down}, {width_, spec_.intermediate}))),
      gate_up_adapter_(adapter_of(unit, block, experts_gate_up, {2 * spec_.intermediate, width_})),
      down_adapter_(adapter_of(unit, block, experts_down, {width_, spec_.intermediate})) {}

at::Tensor Experts::gate_up_of(const shard::UnitTensors& tensors) const {
    return by_expert(tensors[gate_up_], 2 * spec_.intermediate);
}

at::Tensor Experts::down_of(const shard::UnitTensors& tensors) const {
    return by_expert(tensors[down_], width_);
}

at::Tensor Experts::row_weights(const MlpInner& inner, const ops::ExpertRows& rows) const {
    return ops::expert_weights(inner.probabilities, inner.experts, spec_.normalises)
        .flatten()
        .gather(0, rows.choices)
        .unsqueeze(1)
        .to(inner.gate_up.scalar_type());
}

MlpInner Experts::inner(const MlpContext& context, const shard::UnitTensors& weights,
                        const at::Tensor& x) const {
    MlpInner inner;
    inner.probabilities =
        ops::router_probabilities(router_.forward(context.projections, weights, x));
    inner.experts = ops::choose_experts(inner.probabilities, spec_.per_token);
    const ops::ExpertRows rows = ops::rows_by_expert(inner.experts, spec_.count);
    const ExpertExchange exchange(context.experts, rows, {});
    inner.arrivals = exchange.arrivals();
    const at::Tensor x_rows = exchange.to_experts(ops::take_rows(x, rows.tokens));
    inner.gate_up = ops::grouped_linear(context.projections.gemms, x_rows, gate_up_of(weights),
                                        exchange.counts());
    if (gate_up_adapter_)
        gate_up_adapter_->forward({context.projections.gemms, weights, exchange.counts()}, x_rows,
                                  inner.gate_up);
    return inner;
}

at::Tensor Experts::output(const MlpContext& context, const shard::UnitTensors& weights,
                           const MlpInner& inner) const {
    const ops::ExpertRows rows = ops::rows_by_expert(inner.experts, spec_.count);
    const ExpertExchange exchange(context.experts, rows, inner.arrivals);
    auto of_rows = exchange.send_to_experts(row_weights(inner, rows));
    const at::Tensor product = ops::activate(spec_.activation, true, inner.gate_up);
    product.mul_(exchange.receive(std::move(of_rows)));
    const at::Tensor y = ops::grouped_linear(context.projections.gemms, product, down_of(weights),
                                             exchange.counts());
    if (down_adapter_)
        down_adapter_->forward({context.projections.gemms, weights, exchange.counts()}, product, y);
    return ops::sum_of_experts(exchange.to_tokens(y), rows.places);
}

// With u = dy w_down, the gradient of a row's weight is u . product, and that of its product is
// weight * u.
at::Tensor Experts::backward(const MlpContext& context, const shard::UnitTensors& weights,
                             const shard::UnitTensors& gradients, const at::Tensor& dy,
                             const MlpInner& inner, const at::Tensor& x) const {
    const ops::Gemms& gemms = context.projections.gemms;
    const ops::ExpertRows rows = ops::rows_by_expert(inner.experts, spec_.count);
    const ExpertExchange exchange(context.experts, rows, inner.arrivals);
    auto moving_dy = exchange.send_to_experts(ops::take_rows(dy, rows.tokens));
    auto moving_weights = exchange.send_to_experts(row_weights(inner, rows));
    at::Tensor dy_rows = exchange.receive(std::move(moving_dy));
    const at::Tensor of_rows = exchange.receive(std::move(moving_weights));
    at::Tensor d_product =
        ops::grouped_linear_backward_input(gemms, dy_rows, down_of(weights), exchange.counts());
    const ExpertAdapter::Rows adapted{gemms, weights, exchange.counts()};
    at::Tensor d_inner;  // of the adapter
    if (down_adapter_) d_inner = down_adapter_->backward_input(adapted, dy_rows, d_product);
    const at::Tensor d_row_weights = ops::activate(spec_.activation, true, inner.gate_up)
                                         .mul_(d_product)
                                         .sum(1, false, at::kFloat);
    d_product.mul_(of_rows);
    ops::activate_backward(spec_.activation, true, d_product, inner.gate_up);
    const at::Tensor& product = d_product;        // written over
    const at::Tensor& d_gate_up = inner.gate_up;  // written over
    product.mul_(of_rows);
    ops::add_grouped_weight_gradient(gemms, down_of(gradients), dy_rows, product,
                                     exchange.counts());
    if (down_adapter_) down_adapter_->add_gradients(adapted, gradients, dy_rows, d_inner, product);
    dy_rows.reset();
    d_product.reset();
    const at::Tensor x_rows = exchange.to_experts(ops::take_rows(x, rows.tokens));
    ops::add_grouped_weight_gradient(gemms, gate_up_of(gradients), d_gate_up, x_rows,
                                     exchange.counts());
    const at::Tensor dx_rows = ops::grouped_linear_backward_input(
        gemms, d_gate_up, gate_up_of(weights), exchange.counts());
    if (gate_up_adapter_) {
        d_inner = gate_up_adapter_->backward_input(adapted, d_gate_up, dx_rows);
        gate_up_adapter_->add_gradients(adapted, gradients, d_gate_up, d_inner, x_rows);
    }
    at::Tensor dx = ops::sum_of_experts(exchange.to_tokens(dx_rows), rows.places);

    const at::Tensor d_weights = exchange.to_tokens(d_row_weights).gather(0, rows.places.flatten());
    const at::Tensor d_logits =
        ops::router_backward({d_weights.view(rows.places.sizes()), context.routers.d_probability,
                              context.routers.num_counted},
                             inner.probabilities, inner.experts, spec_.normalises);
    return dx.add_(
        router_.backward(context.projections, weights, gradients, d_logits.to(x.scalar_type()), x));
}

void Experts::count_choices(const RouterContext& routers, const MlpInner& inner) const {
    if (!routers.choices.defined()) return;
    const int64_t counted = routers.num_counted;
    const at::Tensor chosen = inner.experts.narrow(0, 0, counted).flatten();
    routers.choices.scatter_add_(0, chosen, at::ones_like(chosen));
    routers.probabilities.add_(
        inner.probabilities.narrow(0, 0, counted).sum(0, false, at::kDouble));
}

double Experts::inner_operations() const {
    const double of_adapter = gate_up_adapter_ ? gate_up_adapter_->operations() : 0;
    return router_.operations() +
           static_cast<double>(spec_.per_token) *
               (4 * static_cast<double>(spec_.intermediate * width_) + of_adapter);
}

double Experts::outer_operations() const {
    const double of_adapter = down_adapter_ ? down_adapter_->operations() : 0;
    return static_cast<double>(spec_.per_token) *
           (2 * static_cast<double>(spec_.intermediate * width_) + of_adapter);
}

std::vector<WeightUse> Experts::other_weights() const {
    const auto rows = static_cast<double>(spec_.per_token);
    return {{router_.shape(), router_.weight()},
            {{2 * spec_.intermediate, width_}, gate_up_, rows},
            {{width_, spec_.intermediate}, down_, rows}};
}

}  // namespace ringshard::model
