#include "experts.hpp"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>

#include "expert_exchange.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/ops/activation.hpp"
#include "ringshard/ops/clamped_swiglu.hpp"
#include "ringshard/ops/grouped_linear.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

namespace {

// Matrices of all experts, [out, in]: one tensor for each, in the order of the experts, or one for
// all of them.
shard::ParameterGroup tensors_of(const ExpertsSpec& spec, const std::vector<std::string>& layers,
                                 const std::vector<int64_t>& shape) {
    shard::ParameterGroup group;
    const int64_t out = shape[0] * std::ssize(layers);
    const std::string stacked = concat(spec.experts, ".", layers.back());
    group.is_of_experts = true;
    if (spec.tensors == ExpertTensors::stacked)
        group.tensors = {{stacked, {spec.count, out, shape[1]}}};
    if (spec.tensors == ExpertTensors::turned)
        group.tensors = {{stacked, {spec.count, shape[1], out}}};
    if (!group.tensors.empty()) return group;
    for (int64_t expert = 0; expert < spec.count; ++expert)
        for (const std::string& layer : layers)
            group.tensors.push_back(
                {concat(spec.experts, ".", expert, ".", layer, ".weight"), shape});
    return group;
}

// Returns nothing if the matrix of the experts has no adapter.
std::optional<ExpertAdapter> adapter_of(shard::UnitLayout& unit, const BlockSpec& block,
                                        const char* parameter, const std::vector<int64_t>& shape) {
    const auto found = block.adapters.find(parameter);
    if (found == block.adapters.end()) return std::nullopt;
    return ExpertAdapter(unit, expert_adapter_prefix(block, parameter), found->second,
                         block.experts->count, shape);
}

// Returns the matrices as the files have them: [count, out, in], or [count, in, out]. `rows`: of
// the matrix of one expert.
at::Tensor by_expert(const at::Tensor& matrices, int64_t rows) {
    if (!matrices.defined() || matrices.dim() == 3) return matrices;  // undefined: frozen
    return matrices.view({matrices.size(0) / rows, rows, matrices.size(1)});
}

std::optional<shard::ParameterId> bias_of(shard::UnitLayout& unit, const ExpertsSpec& spec,
                                          const std::string& layer, int64_t width) {
    if (!spec.has_bias()) return std::nullopt;
    return unit.add({.tensors = {{concat(spec.experts, ".", layer, "_bias"), {spec.count, width}}},
                     .initial = shard::InitialValues::zeros,
                     .is_bias = true});
}

std::optional<shard::ParameterId> correction_of(shard::UnitLayout& unit, const ExpertsSpec& spec) {
    if (spec.correction.empty()) return std::nullopt;
    std::vector<int64_t> shape{spec.count};
    if (spec.correction_is_row) shape.insert(shape.begin(), 1);
    return unit.add({.tensors = {{spec.correction, shape}},
                     .initial = shard::InitialValues::zeros,
                     .role = shard::Role::frozen,
                     .form = shard::Form::wide,
                     .is_bias = true});
}

std::optional<Projection> gate_of(shard::UnitLayout& unit, const BlockSpec& block) {
    if (block.experts->shared_gate.empty()) return std::nullopt;
    return Projection(unit, {.layers = {{block.experts->shared_gate, 1}},
                             .in = block.width,
                             .adapters = block.adapters,
                             .joint = block.joint});
}

// Rows of bf16 are copied to fp32 in either case by a sum on the CPU; plans count this copy.
at::Tensor sums_of_rows(const at::Tensor& rows) { return rows.to(at::kFloat).sum(1); }

std::optional<Mlp> shared_of(shard::UnitLayout& unit, const BlockSpec& block) {
    if (!block.experts->shared) return std::nullopt;
    return Mlp(unit, block, *block.experts->shared);
}

}  // namespace

Experts::Experts(shard::UnitLayout& unit, const BlockSpec& block)
    : spec_(block.experts.value()),
      width_(block.width),
      router_(unit, {.layers = {{spec_.router, spec_.count}},
                     .in = width_,
                     .has_bias = spec_.router_has_bias}),
      correction_(correction_of(unit, spec_)),
      gate_up_(unit.add(tensors_of(spec_, {spec_.gate, spec_.up}, {spec_.intermediate, width_}))),
      down_(unit.add(tensors_of(spec_, {spec_.down}, {width_, spec_.intermediate}))),
      gate_up_bias_(bias_of(unit, spec_, spec_.up, 2 * spec_.intermediate)),
      down_bias_(bias_of(unit, spec_, spec_.down, width_)),
      gate_up_adapter_(adapter_of(unit, block, experts_gate_up, {2 * spec_.intermediate, width_})),
      down_adapter_(adapter_of(unit, block, experts_down, {width_, spec_.intermediate})),
      shared_(shared_of(unit, block)),
      shared_gate_(gate_of(unit, block)) {}

at::Tensor Experts::gate_up_of(const shard::UnitTensors& weights) const {
    const at::Tensor matrices = by_expert(weights[gate_up_], 2 * spec_.intermediate);
    return spec_.tensors == ExpertTensors::turned ? matrices.transpose(1, 2) : matrices;
}

at::Tensor Experts::down_of(const shard::UnitTensors& weights) const {
    const at::Tensor matrices = by_expert(weights[down_], width_);
    return spec_.tensors == ExpertTensors::turned ? matrices.transpose(1, 2) : matrices;
}

void Experts::add_gradient(const ops::Gemms& gemms, const shard::UnitTensors& gradients,
                           shard::ParameterId matrices, const at::Tensor& dy, const at::Tensor& x,
                           const std::vector<int64_t>& counts) const {
    const at::Tensor sums = by_expert(gradients[matrices], dy.size(1));
    if (spec_.tensors == ExpertTensors::turned)
        ops::add_grouped_weight_gradient(gemms, sums, x, dy, counts);
    else
        ops::add_grouped_weight_gradient(gemms, sums, dy, x, counts);
}

at::Tensor Experts::activated(const at::Tensor& gate_up) const {
    if (spec_.tensors == ExpertTensors::turned)
        return ops::clamped_swiglu(gate_up, {spec_.clamped.alpha, spec_.clamped.limit});
    return ops::activate(spec_.activation, true, gate_up);
}

void Experts::activated_backward(const at::Tensor& d_product, const at::Tensor& gate_up) const {
    if (spec_.tensors == ExpertTensors::turned)
        ops::clamped_swiglu_backward(d_product, gate_up,
                                     {spec_.clamped.alpha, spec_.clamped.limit});
    else
        ops::activate_backward(spec_.activation, true, d_product, gate_up);
}

ops::ExpertRows Experts::rows_of(const MlpInner& inner) const {
    return ops::rows_by_expert(inner.experts, spec_.count, spec_.planned_experts);
}

at::Tensor Experts::row_weights(const MlpInner& inner, const ops::ExpertRows& rows) const {
    return ops::expert_weights(inner.probabilities, inner.experts, spec_.routing)
        .flatten()
        .gather(0, rows.choices)
        .unsqueeze(1)
        .to(inner.gate_up.scalar_type());
}

MlpInner Experts::inner(const MlpContext& context, const shard::UnitTensors& weights,
                        const at::Tensor& x) const {
    MlpInner inner;
    inner.probabilities = ops::router_probabilities(logits(context, weights, x), spec_.routing);
    inner.experts =
        ops::choose_experts(inner.probabilities, spec_.per_token, spec_.routing,
                            correction_ ? weights[*correction_].flatten() : at::Tensor());
    const ops::ExpertRows rows = rows_of(inner);
    const ExpertExchange exchange(context.experts, rows, {});
    inner.arrivals = exchange.arrivals();
    auto moving_x = exchange.send_to_experts(ops::take_rows(x, rows.tokens));
    if (shared_) inner.shared = shared_->inner(context, weights, x).gate_up;
    if (shared_gate_) inner.shared_gate = shared_gate_->forward(context.projections, weights, x);
    const at::Tensor x_rows = exchange.receive(std::move(moving_x));
    inner.gate_up = ops::grouped_linear(context.projections.gemms, x_rows, gate_up_of(weights),
                                        exchange.counts());
    if (gate_up_bias_)
        ops::add_group_biases(inner.gate_up, of_this_rank(context, weights[*gate_up_bias_]), {},
                              exchange.counts());
    if (gate_up_adapter_)
        gate_up_adapter_->forward({context.projections.gemms, weights, exchange.counts()}, x_rows,
                                  inner.gate_up);
    return inner;
}

at::Tensor Experts::output(const MlpContext& context, const shard::UnitTensors& weights,
                           const MlpInner& inner, const at::Tensor& addend,
                           const at::Tensor& into) const {
    const ops::ExpertRows rows = rows_of(inner);
    const ExpertExchange exchange(context.experts, rows, inner.arrivals);
    auto moving_weights = exchange.send_to_experts(row_weights(inner, rows));
    const at::Tensor product = activated(inner.gate_up);
    const at::Tensor of_rows = exchange.receive(std::move(moving_weights));
    product.mul_(of_rows);
    const at::Tensor of_experts = ops::grouped_linear(context.projections.gemms, product,
                                                      down_of(weights), exchange.counts());
    if (down_bias_)
        ops::add_group_biases(of_experts, of_this_rank(context, weights[*down_bias_]), of_rows,
                              exchange.counts());
    if (down_adapter_)
        down_adapter_->forward({context.projections.gemms, weights, exchange.counts()}, product,
                               of_experts);
    auto moving_back = exchange.send_to_tokens(of_experts);
    const at::Tensor of_shared = shared_output(context, weights, inner);
    at::Tensor output = ops::sum_of_experts(wait_for(std::move(moving_back)), rows.places);
    if (of_shared.defined()) output.add_(of_shared);
    return addend.defined() ? ops::add_into(std::move(output), addend, into) : output;
}

at::Tensor Experts::logits(const MlpContext& context, const shard::UnitTensors& weights,
                           const at::Tensor& x) const {
    if (!spec_.routes_in_fp32) return router_.forward(context.projections, weights, x);
    return ops::linear(context.projections.gemms, x.to(at::kFloat),
                       weights[router_.weight()].to(at::kFloat), {});
}

at::Tensor Experts::router_backward(const MlpContext& context, const shard::UnitTensors& weights,
                                    const shard::UnitTensors& gradients, const at::Tensor& d_logits,
                                    const at::Tensor& x) const {
    if (!spec_.routes_in_fp32)
        return router_.backward(context.projections, weights, gradients,
                                d_logits.to(x.scalar_type()), x);
    const ops::Gemms& gemms = context.projections.gemms;
    ops::add_weight_gradient(gemms, gradients[router_.weight()], d_logits, x.to(at::kFloat));
    return ops::linear_backward_input(gemms, d_logits, weights[router_.weight()].to(at::kFloat));
}

at::Tensor Experts::of_this_rank(const MlpContext& context, const at::Tensor& of_all) const {
    if (context.experts == nullptr || !of_all.defined()) return of_all;  // undefined: frozen
    const int64_t count = of_all.size(0) / context.experts->size();
    return of_all.narrow(0, context.experts->rank() * count, count);
}

at::Tensor Experts::shared_output(const MlpContext& context, const shard::UnitTensors& weights,
                                  const MlpInner& inner) const {
    if (!shared_) return {};
    at::Tensor of_shared = shared_->output(context, weights, {inner.shared});
    if (shared_gate_) of_shared.mul_(at::sigmoid(inner.shared_gate));
    return of_shared;
}

// With o = sigmoid(gate), the gradient of the gate's product is o (1 - o) (dy . y) of the MLP's
// result y, and that of y is o dy.
at::Tensor Experts::shared_backward(const MlpContext& context, const shard::UnitTensors& weights,
                                    const shard::UnitTensors& gradients, const at::Tensor& dy,
                                    const MlpInner& inner, const at::Tensor& x) const {
    if (!shared_) return {};
    if (!shared_gate_) return shared_->backward(context, weights, gradients, dy, {inner.shared}, x);
    const at::Tensor opened = at::sigmoid(inner.shared_gate.to(at::kFloat));
    const at::Tensor result = shared_->output(context, weights, {inner.shared});
    const at::Tensor d_gate = (dy * result).sum(1, true, at::kFloat).mul_(opened).mul_(1 - opened);
    at::Tensor dx = shared_gate_->backward(context.projections, weights, gradients,
                                           d_gate.to(x.scalar_type()), x);
    return dx.add_(shared_->backward(context, weights, gradients, dy * opened.to(dy.scalar_type()),
                                     {inner.shared}, x));
}

// With u = dy w_down, the gradient of a row's weight is u . product, and that of its product is
// weight * u.
at::Tensor Experts::backward(const MlpContext& context, const shard::UnitTensors& weights,
                             const shard::UnitTensors& gradients, const at::Tensor& dy,
                             const MlpInner& inner, const at::Tensor& x) const {
    const ops::Gemms& gemms = context.projections.gemms;
    const ops::ExpertRows rows = rows_of(inner);
    const ExpertExchange exchange(context.experts, rows, inner.arrivals);
    const std::vector<int64_t>& counts = exchange.counts();
    auto moving_dy = exchange.send_to_experts(ops::take_rows(dy, rows.tokens));
    auto moving_weights = exchange.send_to_experts(row_weights(inner, rows));
    const at::Tensor dx_of_shared = shared_backward(context, weights, gradients, dy, inner, x);
    at::Tensor dy_rows = exchange.receive(std::move(moving_dy));
    const at::Tensor of_rows = exchange.receive(std::move(moving_weights));
    at::Tensor d_product =
        ops::grouped_linear_backward_input(gemms, dy_rows, down_of(weights), counts);
    const ExpertAdapter::Rows adapted{gemms, weights, counts};
    at::Tensor d_inner;  // of the adapter
    if (down_adapter_) d_inner = down_adapter_->backward_input(adapted, dy_rows, d_product);
    const at::Tensor d_row_weights = sums_of_rows(activated(inner.gate_up).mul_(d_product));
    if (down_bias_) {
        const at::Tensor of_bias = at::zeros_like(dy_rows);
        ops::add_group_biases(of_bias, of_this_rank(context, weights[*down_bias_]), {}, counts);
        d_row_weights.add_(of_bias.mul_(dy_rows).sum(1, false, at::kFloat));
        ops::add_group_bias_gradient(of_this_rank(context, gradients[*down_bias_]), dy_rows,
                                     of_rows, counts);
    }
    d_product.mul_(of_rows);
    activated_backward(d_product, inner.gate_up);
    const at::Tensor& product = d_product;        // written over
    const at::Tensor& d_gate_up = inner.gate_up;  // written over
    product.mul_(of_rows);
    add_gradient(gemms, gradients, down_, dy_rows, product, counts);
    if (down_adapter_) down_adapter_->add_gradients(adapted, gradients, dy_rows, d_inner, product);
    dy_rows.reset();
    d_product.reset();
    const at::Tensor x_rows = exchange.to_experts(ops::take_rows(x, rows.tokens));
    add_gradient(gemms, gradients, gate_up_, d_gate_up, x_rows, counts);
    if (gate_up_bias_)
        ops::add_group_bias_gradient(of_this_rank(context, gradients[*gate_up_bias_]), d_gate_up,
                                     {}, counts);
    const at::Tensor dx_rows =
        ops::grouped_linear_backward_input(gemms, d_gate_up, gate_up_of(weights), counts);
    if (gate_up_adapter_) {
        d_inner = gate_up_adapter_->backward_input(adapted, d_gate_up, dx_rows);
        gate_up_adapter_->add_gradients(adapted, gradients, d_gate_up, d_inner, x_rows);
    }
    auto moving_dx = exchange.send_to_tokens(dx_rows);
    const at::Tensor d_weights =
        wait_for(exchange.send_to_tokens(d_row_weights)).gather(0, rows.places.flatten());
    const at::Tensor d_logits =
        ops::router_backward({d_weights.view(rows.places.sizes()), context.routers.d_probability,
                              context.routers.num_counted},
                             inner.probabilities, inner.experts, spec_.routing);
    at::Tensor dx_of_router = router_backward(context, weights, gradients, d_logits, x);
    at::Tensor dx = ops::sum_of_experts(wait_for(std::move(moving_dx)), rows.places);
    if (dx_of_shared.defined()) dx.add_(dx_of_shared);
    return dx.add_(dx_of_router);
}

void Experts::count_choices(const RouterContext& routers, const MlpInner& inner) const {
    if (!routers.choices.defined()) return;
    const int64_t counted = routers.num_counted;
    const at::Tensor chosen = inner.experts.narrow(0, 0, counted).flatten();
    routers.choices.scatter_add_(0, chosen, at::ones_like(chosen));
    if (routers.uncorrected.defined()) {
        const at::Tensor by_probability =
            ops::choose_experts(inner.probabilities.narrow(0, 0, counted), spec_.per_token, {})
                .flatten();
        routers.uncorrected.scatter_add_(0, by_probability, at::ones_like(by_probability));
    }
    routers.probabilities.add_(
        inner.probabilities.narrow(0, 0, counted).sum(0, false, at::kDouble));
}

std::vector<const Projection*> Experts::projections() const {
    std::vector<const Projection*> all;
    if (shared_) all = shared_->projections();
    if (shared_gate_) all.push_back(&*shared_gate_);
    return all;
}

double Experts::inner_operations() const {
    const double of_shared = (shared_ ? shared_->inner_operations() : 0) +
                             (shared_gate_ ? shared_gate_->operations() : 0);
    const double of_adapter = gate_up_adapter_ ? gate_up_adapter_->operations() : 0;
    return of_shared + router_.operations() +
           static_cast<double>(spec_.per_token) *
               (4 * static_cast<double>(spec_.intermediate * width_) + of_adapter);
}

double Experts::outer_operations() const {
    const double of_adapter = down_adapter_ ? down_adapter_->operations() : 0;
    return (shared_ ? shared_->outer_operations() : 0) +
           static_cast<double>(spec_.per_token) *
               (2 * static_cast<double>(spec_.intermediate * width_) + of_adapter);
}

std::vector<WeightUse> Experts::other_weights() const {
    const auto rows = static_cast<double>(spec_.per_token);
    return {{router_.shape(), router_.weight()},
            {{2 * spec_.intermediate, width_}, gate_up_, rows},
            {{width_, spec_.intermediate}, down_, rows}};
}

}  // namespace ringshard::model
