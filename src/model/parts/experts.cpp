#include "experts.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "expert_adapter.hpp"
#include "expert_exchange.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

// Declares e_score_correction_bias: it changes the choice of experts, not their weights.
std::optional<shard::ParameterId> correction_of(shard::UnitLayout& unit, const ExpertsSpec& spec) {
    if (spec.correction.empty()) return std::nullopt;
    std::vector<int64_t> shape{spec.count};
    if (spec.correction_is_row) shape.insert(shape.begin(), 1);
    return unit.add({.tensors = {{spec.correction, shape}},
                     .initial = shard::InitialValues::zeros,
                     .placement = {.is_trained = false, .codec = shard::Codec::fp32},
                     .update = shard::UpdateKind::at_own_rate});
}

// Routers whose corrections are a row are in fp32 everywhere; others that multiply in fp32 do so
// with weights of the compute type.
shard::Codec form_of_router(const ExpertsSpec& spec) {
    return spec.routes_in_fp32 && spec.correction_is_row ? shard::Codec::fp32
                                                         : shard::Codec::compute;
}

// Factors of rows or of weights, which decay as matrices do: transformers knows no norm in them.
std::optional<shard::ParameterId> add_scales(shard::UnitLayout& unit, const ExpertsSpec& spec) {
    if (spec.expert_scales.empty()) return std::nullopt;
    return unit.add({.tensors = {{spec.expert_scales, {spec.count}}},
                     .initial = shard::InitialValues::ones,
                     .update = shard::UpdateKind::decaying});
}

std::unique_ptr<const NormedRows> router_input_of(shard::UnitLayout& unit, SavedLayout& slots,
                                                  const BlockSpec& block, const ExpertsSpec& spec,
                                                  const SavedSlot& stream) {
    if (spec.router_scale.empty()) return nullptr;
    auto norm = std::make_shared<const Norm>(
        unit,
        Norm::Spec{
            .name = spec.router_scale, .width = block.width, .form = block.norm, .ending = ""});
    return std::make_unique<const NormedRows>(std::move(norm), slots, stream,
                                              ActivationPolicy::all);
}

std::optional<Projection> gate_of(shard::UnitLayout& unit, const BlockSpec& block,
                                  const ExpertsSpec& spec) {
    if (spec.shared_gate.empty()) return std::nullopt;
    return Projection(
        unit, {.layers = {{spec.shared_gate, 1}}, .in = block.width, .adapters = block.adapters});
}

std::unique_ptr<const Mlp> shared_of(shard::UnitLayout& unit, SavedLayout& slots,
                                     const BlockSpec& block, const ExpertsSpec& spec) {
    if (!spec.shared) return nullptr;
    return std::make_unique<const Mlp>(unit, slots, block, *spec.shared, slots.add_passing());
}

// The rows of a chunk of tokens [t, w], one for each of their experts.
at::Tensor take(const at::Tensor& x, const ExpertExchange& exchange, int64_t chunk) {
    return ops::take_rows(x, exchange.tokens(chunk));
}

// The first expert of this rank. counts: of its experts.
int64_t first_expert(const BlockContext& context, const std::vector<int64_t>& counts) {
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
    if (chunk == 0) all = at::empty({exchange.num_arriving(), gate_up.size(1)}, gate_up.options());
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

Experts::Experts(shard::UnitLayout& unit, SavedLayout& slots, const BlockSpec& block,
                 const ExpertsSpec& spec, const SavedSlot& stream)
    : spec_(spec),
      width_(block.width),
      router_(unit, {.layers = {{spec_.router, spec_.count, router_name(spec_)}},
                     .in = width_,
                     .has_bias = spec_.router_has_bias,
                     .adapters = block.adapters,
                     .form = form_of_router(spec_),
                     .is_never_quantised = true}),
      router_input_(router_input_of(unit, slots, block, spec_, stream)),
      expert_scales_(add_scales(unit, spec_)),
      correction_(correction_of(unit, spec_)),
      experts_(unit, block, spec),
      shared_(shared_of(unit, slots, block, spec)),
      shared_gate_(gate_of(unit, block, spec)),
      gate_up_(slots.add(ActivationPolicy::all)),
      probabilities_(slots.add(ActivationPolicy::all)),
      chosen_(slots.add(ActivationPolicy::all)),
      arrivals_(slots.add(ActivationPolicy::all)),
      shared_gate_rows_(slots.add(ActivationPolicy::all)) {}

void Experts::forward(std::span<TokenChunk> chunks, const Pass& all, const LayerInput& input,
                      const Finish& finish) const {
    if (!all.context.slices.sets.empty())
        forward_in_slices(chunks, all, input, finish);
    else
        FeedForward::forward(chunks, all, input, finish);
}

void Experts::backward(std::span<TokenChunk> chunks, const BackwardPass& all,
                       const LayerInput& input, const Addition& addition) const {
    if (!all.context.slices.sets.empty())
        backward_in_slices(chunks, all, input, addition);
    else
        FeedForward::backward(chunks, all, input, addition);
}

at::Tensor Experts::scales_of(const Pass& pass) const {
    const at::Tensor& chosen = pass.saved[chosen_];
    return pass.weights[*expert_scales_]
        .to(at::kFloat)
        .gather(0, chosen.flatten())
        .view(chosen.sizes());
}

at::Tensor Experts::row_weights(const Pass& pass, const ops::ExpertRows& rows,
                                at::ScalarType type) const {
    const Saved& saved = pass.saved;
    at::Tensor weights = ops::expert_weights(saved[probabilities_], saved[chosen_], spec_.routing);
    if (expert_scales_) weights = weights * scales_of(pass);
    return weights.flatten().gather(0, rows.choices).unsqueeze(1).to(type);
}

at::Tensor Experts::scales_backward(const BackwardPass& pass, const at::Tensor& d_weights) const {
    const Saved& saved = pass.saved;
    const at::Tensor scales = scales_of(pass);
    if (pass.gradients.has(*expert_scales_)) {
        const at::Tensor weights =
            ops::expert_weights(saved[probabilities_], saved[chosen_], spec_.routing);
        pass.gradients[*expert_scales_].add_(at::zeros_like(saved[probabilities_])
                                                 .scatter_(1, saved[chosen_], d_weights * weights)
                                                 .sum(0));
    }
    return d_weights * scales;
}

at::Tensor Experts::by_width(const at::Tensor& rows) const {
    return rows * (1 / std::sqrt(static_cast<double>(width_)));
}

void Experts::route(const Pass& pass, const at::Tensor& x) const {
    Saved& saved = pass.saved;
    const at::Tensor rows = router_input_ ? by_width(router_input_->forward(pass)) : x;
    saved[probabilities_] = ops::router_probabilities(logits(pass, rows), spec_.routing);
    saved[chosen_] =
        ops::choose_experts(saved[probabilities_], spec_.per_token, spec_.routing,
                            correction_ ? pass.weights[*correction_].flatten() : at::Tensor());
}

void Experts::make_shared(const Pass& pass, const at::Tensor& x) const {
    if (shared_) shared_->make_inner(pass, x);
    if (shared_gate_)
        pass.saved[shared_gate_rows_] =
            shared_gate_->forward(pass.context.projections, pass.weights, x);
}

void Experts::make_inner(const Pass& pass, const at::Tensor& x) const {
    route(pass, x);
    make_shared(pass, x);
}

at::Tensor Experts::make_rows(const Pass& pass, const at::Tensor& x) const {
    const auto& [context, weights, saved] = pass;
    route(pass, x);
    const ExpertExchange exchange(context.experts, saved[chosen_], spec_,
                                  experts_.tokens_by_adapter(context.projections, x.size(0)), {});
    saved[arrivals_] = exchange.arrivals();
    const at::Tensor factors = row_weights(pass, exchange.rows(), x.scalar_type());
    const auto send = [&](int64_t chunk) {
        Arriving sent;
        sent.x = exchange.send_to_experts(chunk, take(x, exchange, chunk));
        sent.factors = exchange.send_to_experts(chunk, exchange.of_tokens(factors, chunk));
        return sent;
    };
    Arriving arriving = send(0);
    make_shared(pass, x);
    Returning returning(exchange);
    for (int64_t chunk = 0; chunk < exchange.chunks(); ++chunk) {
        Arriving here = std::move(arriving);
        if (chunk + 1 < exchange.chunks()) arriving = send(chunk + 1);
        const std::vector<int64_t>& counts = exchange.counts(chunk);
        const ExpertMlp::Rows rows{context.projections, weights, counts,
                                   first_expert(context, counts), exchange.adapter(chunk)};
        const at::Tensor gate_up = experts_.inner(rows, exchange.receive(chunk, std::move(here.x)));
        if (gate_up_.is_kept(context.policy)) keep(exchange, chunk, gate_up, saved[gate_up_]);
        const at::Tensor of_rows = exchange.receive(chunk, std::move(here.factors));
        returning.send(chunk, experts_.output(rows, gate_up, of_rows));
    }
    const at::Tensor of_shared = shared_output(pass);
    at::Tensor output = returning.finish();
    return shared_ ? output.add_(of_shared) : output;
}

at::Tensor Experts::logits(const Pass& pass, const at::Tensor& x) const {
    const ProjectionContext& context = pass.context.projections;
    if (!spec_.routes_in_fp32) return router_.forward(context.in_bf16(), pass.weights, x);
    return ops::linear(context.gemms, x.to(at::kFloat),
                       pass.weights[router_.weight()].to(at::kFloat), {});
}

at::Tensor Experts::router_backward(const BackwardPass& pass, const at::Tensor& d_factors,
                                    const ops::ExpertRows& rows, const at::Tensor& of_layer) const {
    const auto& [context, weights, saved] = static_cast<const Pass&>(pass);
    const at::Tensor x = router_input_ ? by_width(router_input_->again(pass)) : of_layer;
    at::Tensor d_weights = d_factors.gather(0, rows.places.flatten()).view(rows.places.sizes());
    if (expert_scales_) d_weights = scales_backward(pass, d_weights);
    const at::Tensor d_logits = ops::router_backward(
        {d_weights, context.routers.d_probability, context.routers.num_counted},
        saved[probabilities_], saved[chosen_], spec_.routing);
    if (!spec_.routes_in_fp32)
        return router_.backward(context.projections.in_bf16(), weights, pass.gradients,
                                d_logits.to(x.scalar_type()), x);
    const ops::Gemms& gemms = context.projections.gemms;
    ops::add_weight_gradient(gemms, pass.gradients[router_.weight()], d_logits, x.to(at::kFloat));
    return ops::linear_backward_input(gemms, d_logits, weights[router_.weight()].to(at::kFloat));
}

void Experts::add_router_gradient(const BackwardPass& pass, const at::Tensor& d_rows,
                                  const at::Tensor& dx) const {
    if (router_input_)
        router_input_->add_gradient(pass, by_width(d_rows));
    else
        dx.add_(d_rows);
}

at::Tensor Experts::shared_output(const Pass& pass) const {
    if (!shared_) return {};
    at::Tensor of_shared = shared_->make_output(pass);
    if (shared_gate_) of_shared.mul_(at::sigmoid(pass.saved[shared_gate_rows_]));
    return of_shared;
}

// With o = sigmoid(gate), the gradient of the gate's product is o (1 - o) (dy . y) of the MLP's
// result y, and that of y is o dy.
at::Tensor Experts::shared_backward(const BackwardPass& pass, const at::Tensor& dy,
                                    const at::Tensor& x) const {
    if (!shared_) return {};
    if (!shared_gate_) return shared_->backward_to(pass, dy, x);
    const at::Tensor opened = at::sigmoid(pass.saved[shared_gate_rows_].to(at::kFloat));
    const at::Tensor result = shared_->make_output(pass);
    const at::Tensor d_gate = (dy * result).sum(1, true, at::kFloat).mul_(opened).mul_(1 - opened);
    at::Tensor dx = shared_gate_->backward(pass.context.projections, pass.weights, pass.gradients,
                                           d_gate.to(x.scalar_type()), x);
    return dx.add_(shared_->backward_to(pass, dy * opened.to(dy.scalar_type()), x));
}

void Experts::chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                             const LayerInput& input) const {
    input.add_gradient(pass, x_gradient(pass, dy, input.again(pass)));
}

at::Tensor Experts::x_gradient(const BackwardPass& pass, const at::Tensor& dy,
                               const at::Tensor& x) const {
    const auto& [context, weights, saved] = static_cast<const Pass&>(pass);
    const shard::UnitTensors& gradients = pass.gradients;
    const ExpertExchange exchange(context.experts, saved[chosen_], spec_,
                                  experts_.tokens_by_adapter(context.projections, x.size(0)),
                                  saved[arrivals_]);
    const at::Tensor factors = row_weights(pass, exchange.rows(), x.scalar_type());
    const auto send_x = [&](int64_t chunk) {
        return exchange.send_to_experts(chunk, take(x, exchange, chunk));
    };
    const bool travels = context.experts.ranks != nullptr;  // else x is made later
    const bool makes_inner = !saved.has(gate_up_);
    const auto send = [&](int64_t chunk) {  // in the order in which the experts need them
        Arriving sent;
        if (travels && makes_inner) sent.x = send_x(chunk);
        sent.dy = exchange.send_to_experts(chunk, take(dy, exchange, chunk));
        sent.factors = exchange.send_to_experts(chunk, exchange.of_tokens(factors, chunk));
        if (travels && !makes_inner) sent.x = send_x(chunk);
        return sent;
    };
    Arriving arriving = send(0);
    const at::Tensor dx_of_shared = shared_backward(pass, dy, x);
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
        const ExpertMlp::Rows rows{context.projections, weights, counts,
                                   first_expert(context, counts), exchange.adapter(chunk)};
        at::Tensor x_rows;
        at::Tensor gate_up;  // that of its gradient after backward_output()
        if (!makes_inner) {
            gate_up = exchange.of_experts(saved[gate_up_], chunk);
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
    const at::Tensor dx_of_router = router_backward(pass, at::cat(d_factors), exchange.rows(), x);
    at::Tensor dx = returning.finish();
    if (shared_) dx.add_(dx_of_shared);
    add_router_gradient(pass, dx_of_router, dx);
    return dx;
}

void Experts::end_forward(const Pass& pass, const at::Tensor&) const {
    const auto& [choices, probabilities, uncorrected, counted, d_probability] =
        pass.context.routers;
    if (!choices.defined()) return;
    const at::Tensor chosen = pass.saved[chosen_].narrow(0, 0, counted).flatten();
    choices.scatter_add_(0, chosen, at::ones_like(chosen));
    const at::Tensor here = pass.saved[probabilities_].narrow(0, 0, counted);
    if (uncorrected) {
        const at::Tensor by_probability = ops::choose_experts(here, spec_.per_token, {}).flatten();
        uncorrected->scatter_add_(0, by_probability, at::ones_like(by_probability));
    }
    probabilities.add_(here.sum(0, false, at::kDouble));
}

std::vector<const Projection*> Experts::projections() const {
    std::vector<const Projection*> all;
    if (shared_) all = shared_->projections();
    if (shared_gate_) all.push_back(&*shared_gate_);
    return all;
}

void Experts::add_costs(StageCosts& costs, const MadeAgain& again) const {
    const size_t of_router = costs.products.size();
    router_.add_products("router", again.inner, costs.products);
    costs.products[of_router].projection = nullptr;  // it is not counted among those in FP8
    experts_.add_products(again, costs.products);
    const auto inner = static_cast<double>(spec_.per_token * spec_.intermediate);
    const double rows = (spec_.is_gated ? 3 : 2) * inner;
    costs.add_rows("SwiGLU, forward", (again.outer ? 2 : 1) * rows, {"::SwiGluForward"});
    costs.add_rows("SwiGLU, backward", 2 * rows, {"::SwiGluBackward"});
    costs.rows_of_host += passes_of_host * inner;
    if (shared_) shared_->add_costs(costs, again, "shared.");
    if (shared_gate_) shared_gate_->add_products("shared.gate", again.inner, costs.products);
}

std::vector<WeightUse> Experts::other_weights() const {
    std::vector<WeightUse> all = experts_.weights();
    all.insert(all.begin(), {router_.shape(), router_.weight()});
    return all;
}

}  // namespace ringshard::model
