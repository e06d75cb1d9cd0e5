#include "experts.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>

#include "expert_adapter.hpp"
#include "expert_exchange.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

namespace {

// Declares e_score_correction_bias: it changes the choice of experts, not their weights.
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

// Ernie's routers, whose corrections are a row, are in fp32 everywhere, as transformers keeps them;
// those of GLM-4.5 multiply in fp32 with weights of the compute type.
shard::Form form_of_router(const ExpertsSpec& spec) {
    return spec.routes_in_fp32 && spec.correction_is_row ? shard::Form::wide : shard::Form::numbers;
}

std::optional<Projection> gate_of(shard::UnitLayout& unit, const BlockSpec& block) {
    if (block.experts->shared_gate.empty()) return std::nullopt;
    return Projection(unit, {.layers = {{block.experts->shared_gate, 1}},
                             .in = block.width,
                             .adapters = block.adapters,
                             .joint = block.joint});
}

std::optional<Mlp> shared_of(shard::UnitLayout& unit, const BlockSpec& block) {
    if (!block.experts->shared) return std::nullopt;
    return Mlp(unit, block, *block.experts->shared);
}

// The rows of a chunk of tokens [t, w], one for each of their experts.
at::Tensor take(const at::Tensor& x, const ExpertExchange& exchange, int64_t chunk) {
    return ops::take_rows(x, exchange.tokens(chunk));
}

// The first expert of this rank. counts: of its experts.
int64_t first_expert(const MlpContext& context, const std::vector<int64_t>& counts) {
    const comm::Communicator* const ranks = context.experts.ranks;
    return ranks == nullptr ? 0 : ranks->rank() * std::ssize(counts);
}

// The rows of a chunk while they are sent to the experts.
struct Arriving {
    ExpertExchange::Moving x{};
    ExpertExchange::Moving dy{};
    ExpertExchange::Moving factors{};
};

// Puts gate and up of a chunk into those of all chunks.
void keep(const ExpertExchange& exchange, int64_t chunk, const at::Tensor& gate_up,
          at::Tensor& all) {
    if (exchange.chunks() == 1) {
        all = gate_up;
        return;
    }
    if (!all.defined())
        all = at::empty({exchange.num_arriving(), gate_up.size(1)}, gate_up.options());
    exchange.of_experts(all, chunk).copy_(gate_up);
}

// Sends results of the experts back: those of a chunk while the next chunk is computed.
class Returning {
public:
    explicit Returning(const ExpertExchange& exchange) : exchange_(exchange) {}

    // Collective over the group.
    void send(int64_t chunk, const at::Tensor& rows) {
        ExpertExchange::Moving next = exchange_.send_to_tokens(chunk, rows);
        if (chunk > 0) collect();
        moving_ = std::move(next);
    }
    // Returns the sums of all tokens.
    at::Tensor finish() {
        collect();
        return sums_.size() == 1 ? sums_.front() : at::cat(sums_);
    }

private:
    void collect() {
        const int64_t chunk = std::ssize(sums_);
        sums_.push_back(ops::sum_of_experts(wait_for(std::move(moving_)), exchange_.places(chunk)));
    }

    const ExpertExchange& exchange_;
    ExpertExchange::Moving moving_;
    std::vector<at::Tensor> sums_;
};

}  // namespace

Experts::Experts(shard::UnitLayout& unit, const BlockSpec& block)
    : spec_(block.experts.value()),
      width_(block.width),
      router_(unit, {.layers = {{spec_.router, spec_.count, router_name(spec_)}},
                     .in = width_,
                     .has_bias = spec_.router_has_bias,
                     .adapters = block.adapters,
                     .form = form_of_router(spec_)}),
      correction_(correction_of(unit, spec_)),
      experts_(unit, block),
      shared_(shared_of(unit, block)),
      shared_gate_(gate_of(unit, block)) {}

at::Tensor Experts::row_weights(const MlpInner& inner, const ops::ExpertRows& rows,
                                at::ScalarType type) const {
    return ops::expert_weights(inner.probabilities, inner.experts, spec_.routing)
        .flatten()
        .gather(0, rows.choices)
        .unsqueeze(1)
        .to(type);
}

MlpInner Experts::routed(const MlpContext& context, const shard::UnitTensors& weights,
                         const at::Tensor& x) const {
    MlpInner inner;
    inner.probabilities = ops::router_probabilities(logits(context, weights, x), spec_.routing);
    inner.experts =
        ops::choose_experts(inner.probabilities, spec_.per_token, spec_.routing,
                            correction_ ? weights[*correction_].flatten() : at::Tensor());
    return inner;
}

void Experts::add_shared(const MlpContext& context, const shard::UnitTensors& weights,
                         const at::Tensor& x, MlpInner& inner) const {
    if (shared_) inner.shared = shared_->inner(context, weights, x).gate_up;
    if (shared_gate_) inner.shared_gate = shared_gate_->forward(context.projections, weights, x);
}

MlpInner Experts::inner(const MlpContext& context, const shard::UnitTensors& weights,
                        const at::Tensor& x) const {
    MlpInner inner = routed(context, weights, x);
    add_shared(context, weights, x, inner);
    return inner;
}

MlpOutput Experts::forward(const MlpContext& context, const shard::UnitTensors& weights,
                           const at::Tensor& x, const at::Tensor& addend,
                           const at::Tensor& into) const {
    MlpInner inner = routed(context, weights, x);
    const ExpertExchange exchange(context.experts, inner.experts, spec_, {});
    inner.arrivals = exchange.arrivals();
    const at::Tensor factors = row_weights(inner, exchange.rows(), x.scalar_type());
    const auto send = [&](int64_t chunk) {
        Arriving sent;
        sent.x = exchange.send_to_experts(chunk, take(x, exchange, chunk));
        sent.factors = exchange.send_to_experts(chunk, exchange.of_tokens(factors, chunk));
        return sent;
    };
    Arriving arriving = send(0);
    add_shared(context, weights, x, inner);
    Returning returning(exchange);
    for (int64_t chunk = 0; chunk < exchange.chunks(); ++chunk) {
        Arriving here = std::move(arriving);
        if (chunk + 1 < exchange.chunks()) arriving = send(chunk + 1);
        const std::vector<int64_t>& counts = exchange.counts(chunk);
        const ExpertMlp::Rows rows{context, weights, counts, first_expert(context, counts)};
        const at::Tensor gate_up = experts_.inner(rows, exchange.receive(chunk, std::move(here.x)));
        if (context.keeps_inner) keep(exchange, chunk, gate_up, inner.gate_up);
        const at::Tensor of_rows = exchange.receive(chunk, std::move(here.factors));
        returning.send(chunk, experts_.output(rows, gate_up, of_rows));
    }
    const at::Tensor of_shared = shared_output(context, weights, inner);
    at::Tensor output = returning.finish();
    if (of_shared.defined()) output.add_(of_shared);
    if (addend.defined()) output = ops::add_into(std::move(output), addend, into);
    return {std::move(inner), std::move(output)};
}

at::Tensor Experts::logits(const MlpContext& context, const shard::UnitTensors& weights,
                           const at::Tensor& x) const {
    if (!spec_.routes_in_fp32) return router_.forward(context.projections.in_bf16(), weights, x);
    return ops::linear(context.projections.gemms, x.to(at::kFloat),
                       weights[router_.weight()].to(at::kFloat), {});
}

at::Tensor Experts::router_backward(const MlpContext& context, const shard::UnitTensors& weights,
                                    const shard::UnitTensors& gradients,
                                    const at::Tensor& d_weights, const MlpInner& inner,
                                    const at::Tensor& x) const {
    const at::Tensor d_logits = ops::router_backward(
        {d_weights, context.routers.d_probability, context.routers.num_counted},
        inner.probabilities, inner.experts, spec_.routing);
    if (!spec_.routes_in_fp32)
        return router_.backward(context.projections.in_bf16(), weights, gradients,
                                d_logits.to(x.scalar_type()), x);
    const ops::Gemms& gemms = context.projections.gemms;
    ops::add_weight_gradient(gemms, gradients[router_.weight()], d_logits, x.to(at::kFloat));
    return ops::linear_backward_input(gemms, d_logits, weights[router_.weight()].to(at::kFloat));
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

at::Tensor Experts::backward(const MlpContext& context, const shard::UnitTensors& weights,
                             const shard::UnitTensors& gradients, const at::Tensor& dy,
                             const MlpInner& inner, const at::Tensor& x) const {
    const ExpertExchange exchange(context.experts, inner.experts, spec_, inner.arrivals);
    const at::Tensor factors = row_weights(inner, exchange.rows(), x.scalar_type());
    const auto send_x = [&](int64_t chunk) {
        return exchange.send_to_experts(chunk, take(x, exchange, chunk));
    };
    const bool travels = context.experts.ranks != nullptr;  // else x is made later
    const bool makes_inner = !inner.gate_up.defined();
    const auto send = [&](int64_t chunk) {  // in the order in which the experts need them
        Arriving sent;
        if (travels && makes_inner) sent.x = send_x(chunk);
        sent.dy = exchange.send_to_experts(chunk, take(dy, exchange, chunk));
        sent.factors = exchange.send_to_experts(chunk, exchange.of_tokens(factors, chunk));
        if (travels && !makes_inner) sent.x = send_x(chunk);
        return sent;
    };
    Arriving arriving = send(0);
    const at::Tensor dx_of_shared = shared_backward(context, weights, gradients, dy, inner, x);
    std::vector<at::Tensor> d_factors;
    ExpertExchange::Moving moving_factors;
    Returning returning(exchange);
    for (int64_t chunk = 0; chunk < exchange.chunks(); ++chunk) {
        Arriving here = std::move(arriving);
        if (chunk + 1 < exchange.chunks()) arriving = send(chunk + 1);
        const auto receive_x = [&] {
            return exchange.receive(chunk, travels ? std::move(here.x) : send_x(chunk));
        };
        const std::vector<int64_t>& counts = exchange.counts(chunk);
        const ExpertMlp::Rows rows{context, weights, counts, first_expert(context, counts)};
        at::Tensor x_rows;
        at::Tensor gate_up;  // that of its gradient after backward_output()
        if (!makes_inner) {
            gate_up = exchange.of_experts(inner.gate_up, chunk);
        } else {
            x_rows = receive_x();
            gate_up = experts_.inner(rows, x_rows);
        }
        at::Tensor dy_rows = exchange.receive(chunk, std::move(here.dy));
        const at::Tensor of_rows = exchange.receive(chunk, std::move(here.factors));
        if (chunk > 0) d_factors.push_back(wait_for(std::move(moving_factors)));
        moving_factors = exchange.send_to_tokens(
            chunk, experts_.backward_output(rows, gradients, dy_rows, of_rows, gate_up));
        dy_rows.reset();
        const auto [dx_rows, d_inner] = experts_.backward_inner(rows, gate_up);
        returning.send(chunk, dx_rows);
        if (!makes_inner) x_rows = receive_x();
        experts_.add_inner_gradients(rows, gradients, gate_up, d_inner, x_rows);
    }
    d_factors.push_back(wait_for(std::move(moving_factors)));
    const at::Tensor& places = exchange.rows().places;
    const at::Tensor d_weights =
        at::cat(d_factors).gather(0, places.flatten()).view(places.sizes());
    at::Tensor dx_of_router = router_backward(context, weights, gradients, d_weights, inner, x);
    at::Tensor dx = returning.finish();
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

void Experts::add_products(const MadeAgain& again, std::vector<ProductUse>& products) const {
    const size_t of_router = products.size();
    router_.add_products("router", again.inner, products);
    products[of_router].projection = nullptr;  // it is not counted among those in FP8
    experts_.add_products(again, products);
    if (shared_) shared_->add_products("shared.", again, products);
    if (shared_gate_) shared_gate_->add_products("shared.gate", again.inner, products);
}

std::vector<WeightUse> Experts::other_weights() const {
    std::vector<WeightUse> all = experts_.weights();
    all.insert(all.begin(), {router_.shape(), router_.weight()});
    return all;
}

}  // namespace ringshard::model
