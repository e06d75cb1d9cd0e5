#include "mamba.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

namespace ringshard::model {

using attention::DeltaSizes;
using shard::InitialValues;

namespace {

ProjectionSpec projection(const BlockSpec& block, const char* name, int64_t in, int64_t out) {
    return {.layers = {{name, out}},
            .in = in,
            .has_bias = block.mamba->has_bias,
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
at::Tensor mixed(const at::Tensor& rows, const DeltaSizes& sizes) {
    return rows.narrow(1, sizes.values(), sizes.columns());
}

}  // namespace

Mamba::Mamba(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block)
    : epsilon_(block.norm.epsilon),
      norm_groups_(block.mamba->norm_groups),
      in_(unit, projection(block, "mamba.in_proj", block.width,
                           block.mamba->sizes.values() + block.mamba->sizes.columns())),
      conv_(unit.add({{{"mamba.conv1d.weight",
                        {block.mamba->sizes.convolved(), 1, attention::rows_before + 1}}}})),
      conv_bias_(conv_bias_of(unit, *block.mamba)),
      bias_(unit.add({{{"mamba.dt_bias", {block.mamba->sizes.value_heads}}}, InitialValues::ones})),
      log_rate_(
          unit.add(of_heads("mamba.A_log", block.mamba->sizes, InitialValues::log_of_places))),
      norm_(
          unit.add({{{"mamba.norm.weight", {block.mamba->sizes.values()}}}, InitialValues::ones})),
      skip_(unit.add(of_heads("mamba.D", block.mamba->sizes, InitialValues::ones))),
      out_(unit, projection(block, "mamba.out_proj", block.mamba->sizes.values(), block.width)),
      path_(saved, block.mamba->sizes) {}

attention::DeltaWeights Mamba::weights_of(const shard::UnitTensors& weights) const {
    return {weights[conv_],
            {weights[log_rate_], weights[bias_]},
            conv_bias_ ? weights[*conv_bias_] : at::Tensor(),
            weights[skip_]};
}

ops::NormOfGated Mamba::norm(const shard::UnitTensors& weights) const {
    return {weights[norm_], epsilon_, norm_groups_};
}

at::Tensor Mamba::normed(const shard::UnitTensors& weights, const Saved& saved) const {
    return ops::norm_of_gated(path_.read(saved), gates(path_.rows(saved), path_.sizes()),
                              norm(weights));
}

void Mamba::project(const BlockContext& context, const shard::UnitTensors& weights,
                    const at::Tensor& x, Saved& saved) const {
    path_.rows(saved) = in_.forward(context.projections(), weights, x);
}

void Mamba::mix(const BlockContext& context, const shard::UnitTensors& weights,
                Saved& saved) const {
    path_.mix(context, mixed(path_.rows(saved), path_.sizes()), weights_of(weights), saved);
}

at::Tensor Mamba::output(const BlockContext& context, const shard::UnitTensors& weights,
                         const Saved& saved, const at::Tensor& addend) const {
    return out_.forward(context.projections(), weights, normed(weights, saved), addend);
}

at::Tensor Mamba::output_backward(const BlockContext& context, const shard::UnitTensors& weights,
                                  const shard::UnitTensors& gradients, const at::Tensor& dy,
                                  const Saved& saved) const {
    const at::Tensor& rows = path_.rows(saved);
    const at::Tensor& read = path_.read(saved);
    const at::Tensor d_normed =
        out_.backward(context.projections(), weights, gradients, dy, normed(weights, saved));
    const at::Tensor d_gates = at::empty_like(read);
    const at::Tensor d_read = ops::norm_of_gated_backward(
        d_normed, read, gates(rows, path_.sizes()), norm(weights), d_gates, gradients[norm_]);
    const at::Tensor d_mixed =
        path_.backward(context, mixed(rows, path_.sizes()), weights_of(weights),
                       weights_of(gradients), d_read, saved);
    return at::cat({d_gates, d_mixed}, 1);
}

at::Tensor Mamba::project_backward(const BlockContext& context, const shard::UnitTensors& weights,
                                   const shard::UnitTensors& gradients, const at::Tensor& d_rows,
                                   const at::Tensor& x) const {
    return in_.backward(context.projections(), weights, gradients, d_rows, x);
}

std::vector<ProductUse> Mamba::products(config::ActivationPolicy policy, bool keeps_output) const {
    return path_.products(policy, in_, out_, keeps_output);
}

std::vector<const Projection*> Mamba::projections() const { return {&in_, &out_}; }

}  // namespace ringshard::model
