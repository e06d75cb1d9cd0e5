#include "mamba.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

namespace ringshard::model {

using attention::DeltaSizes;
using shard::InitialValues;

namespace {

ProjectionSpec projection(const BlockSpec& block, const MambaSpec& mamba, const char* name,
                          int64_t in, int64_t out) {
    return {.layers = {{name, out}},
            .in = in,
            .has_bias = mamba.has_bias,
            .adapters = block.adapters,
            .joint = block.joint};
}

// A vector of the value heads that decays as matrices do, as transformers has it.
shard::ParameterGroup of_heads(const char* name, const DeltaSizes& sizes, InitialValues initial) {
    return {.tensors = {{name, {sizes.value_heads}}}, .initial = initial, .decays = true};
}

std::optional<shard::ParameterId> conv_bias_of(shard::UnitLayout& unit, const MambaSpec& mamba) {
    if (!mamba.has_conv_bias) return std::nullopt;
    return unit.add({.tensors = {{"mamba.conv1d.bias", {mamba.sizes.convolved()}}},
                     .initial = InitialValues::zeros,
                     .is_bias = true});
}

at::Tensor gates(const at::Tensor& rows, const DeltaSizes& sizes) {
    return rows.narrow(1, 0, sizes.values());
}
at::Tensor columns(const at::Tensor& rows, const DeltaSizes& sizes) {
    return rows.narrow(1, sizes.values(), sizes.columns());
}

}  // namespace

Mamba::Mamba(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
             const MambaSpec& spec)
    : StateMixer(saved, spec.sizes),
      epsilon_(block.norm.epsilon),
      norm_groups_(spec.norm_groups),
      in_(unit, projection(block, spec, "mamba.in_proj", block.width,
                           spec.sizes.values() + spec.sizes.columns())),
      conv_(unit.add(
          {{{"mamba.conv1d.weight", {spec.sizes.convolved(), 1, attention::rows_before + 1}}}})),
      conv_bias_(conv_bias_of(unit, spec)),
      bias_(unit.add({{{"mamba.dt_bias", {spec.sizes.value_heads}}}, InitialValues::ones})),
      log_rate_(unit.add(of_heads("mamba.A_log", spec.sizes, InitialValues::log_of_places))),
      norm_(unit.add({{{"mamba.norm.weight", {spec.sizes.values()}}}, InitialValues::ones})),
      skip_(unit.add(of_heads("mamba.D", spec.sizes, InitialValues::ones))),
      out_(unit, projection(block, spec, "mamba.out_proj", spec.sizes.values(), block.width)) {}

attention::DeltaWeights Mamba::weights_of(const shard::UnitTensors& weights) const {
    return {weights[conv_],
            {weights[log_rate_], weights[bias_]},
            conv_bias_ ? weights[*conv_bias_] : at::Tensor(),
            weights[skip_]};
}

ops::NormOfGated Mamba::norm(const shard::UnitTensors& weights) const {
    return {weights[norm_], epsilon_, norm_groups_};
}

void Mamba::project(const Pass& pass, const at::Tensor& x) const {
    path_.rows(pass.saved) = in_.forward(pass.context.projections, pass.weights, x);
}

void Mamba::mix(const Pass& pass) const {
    path_.mix(pass, columns(path_.rows(pass.saved), path_.sizes()), weights_of(pass.weights));
}

at::Tensor Mamba::mixed(const Pass& pass) const {
    return ops::norm_of_gated(path_.read(pass.saved), gates(path_.rows(pass.saved), path_.sizes()),
                              norm(pass.weights));
}

at::Tensor Mamba::rows_gradient(const BackwardPass& pass, at::Tensor dy) const {
    const at::Tensor& rows = path_.rows(pass.saved);
    const at::Tensor& read = path_.read(pass.saved);
    const at::Tensor d_normed =
        out_.backward(pass.context.projections, pass.weights, pass.gradients, dy, mixed(pass));
    dy.reset();
    const at::Tensor d_gates = at::empty_like(read);
    const at::Tensor d_read =
        ops::norm_of_gated_backward(d_normed, read, gates(rows, path_.sizes()), norm(pass.weights),
                                    d_gates, pass.gradients[norm_]);
    const at::Tensor d_columns =
        path_.backward(pass, columns(rows, path_.sizes()), weights_of(pass.weights),
                       weights_of(pass.gradients), d_read);
    return at::cat({d_gates, d_columns}, 1);
}

void Mamba::backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const {
    input.backward(pass, in_, rows_gradient(pass, std::move(dy)));
}

}  // namespace ringshard::model
