#include "short_conv.hpp"

#include <ATen/ops/zeros.h>

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

constexpr attention::Mask through_rows{.window = {}, .through_state = true};

ProjectionSpec conv_projection(const BlockSpec& block, const ShortConvSpec& conv, const char* name,
                               int64_t out) {
    return {.layers = {{name, out}},
            .in = block.width,
            .has_bias = conv.has_bias,
            .adapters = block.adapters};
}

std::optional<shard::ParameterId> short_conv_bias(shard::UnitLayout& unit,
                                                  const ShortConvSpec& conv) {
    if (!conv.has_bias) return std::nullopt;
    return unit.add({.tensors = {{"conv.conv.bias", {conv.sizes.convolved()}}},
                     .initial = shard::InitialValues::zeros,
                     .update = shard::UpdateKind::at_own_rate});
}

}  // namespace

ShortConv::ShortConv(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                     const ShortConvSpec& spec)
    : Mixer(saved),
      spec_(spec),
      in_(unit, conv_projection(block, spec, "conv.in_proj", 3 * block.width)),
      conv_(unit.add({{{"conv.conv.weight", {block.width, 1, spec.taps}}}})),
      conv_bias_(short_conv_bias(unit, spec)),
      out_(unit, conv_projection(block, spec, "conv.out_proj", block.width)),
      gated_(saved.add(ActivationPolicy::attention)),
      convolved_(saved.add(ActivationPolicy::attention)),
      before_(saved.add(ActivationPolicy::attention)) {}

attention::ShortConvWeights ShortConv::weights_of(const shard::UnitTensors& weights) const {
    return {weights[conv_], conv_bias_ ? weights[*conv_bias_] : at::Tensor()};
}

void ShortConv::project(const Pass& pass, const at::Tensor& x) const {
    pass.saved[projected_] = in_.forward(pass.context.projections, pass.weights, x);
}

void ShortConv::mix(const Pass& pass) const {
    const auto& [context, weights, saved] = pass;
    if (saved.has(gated_)) return;
    const attention::Plan& plan = context.plan_of(through_rows);
    if (context.cache != nullptr) {
        saved[gated_] = attention::conv_cached(saved[projected_], weights_of(weights), plan,
                                               context.cache->states.before);
        return;
    }
    auto [out, convolved, before] =
        engine(context).forward(saved[projected_], weights_of(weights), plan);
    saved[gated_] = std::move(out);
    saved[convolved_] = std::move(convolved);
    saved[before_] = std::move(before);
}

void ShortConv::backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const {
    const Saved& saved = pass.saved;
    const at::Tensor d_gated =
        out_.backward(pass.context.projections, pass.weights, pass.gradients, dy, saved[gated_]);
    dy.reset();
    input.backward(pass, in_,
                   engine(pass.context)
                       .backward(saved[projected_], weights_of(pass.weights),
                                 {saved[gated_], saved[convolved_], saved[before_]}, d_gated,
                                 weights_of(pass.gradients), pass.context.plan_of(through_rows)));
}

void ShortConv::make_cache(LayerCache& cache, int64_t, int64_t texts,
                           const at::TensorOptions& options) const {
    cache.states = {at::zeros({texts, spec_.sizes.value_heads, 0, spec_.sizes.value_dim},
                              options.dtype(at::kFloat)),
                    at::zeros({texts, attention::rows_before, spec_.sizes.convolved()}, options)};
}

void ShortConv::add_costs(StageCosts& costs, bool makes_output_again) const {
    in_.add_products("in", is_projected_again(costs.policy), costs.products);
    const auto width = static_cast<double>(spec_.sizes.convolved());
    costs.products.push_back(
        convolution(2.0 * static_cast<double>(spec_.taps) * width, !gated_.is_kept(costs.policy)));
    out_.add_products("out", makes_output_again, costs.products);
}

}  // namespace ringshard::model
