#include "mamba.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

namespace ringshard::model {

using attention::DeltaSizes;
using shard::InitialValues;

namespace {

ProjectionSpec projection(const BlockSpec& block, std::string name, int64_t in, int64_t out,
                          bool has_bias) {
    return {.layers = {{std::move(name), out}},
            .in = in,
            .has_bias = has_bias,
            .adapters = block.adapters};
}

// A vector of the value heads that decays as matrices do, as transformers has it.
shard::ParameterGroup of_heads(std::string name, const DeltaSizes& sizes, InitialValues initial) {
    return {.tensors = {{std::move(name), {sizes.value_heads}}},
            .initial = initial,
            .update = shard::UpdateKind::decaying};
}

std::optional<shard::ParameterId> conv_bias_of(shard::UnitLayout& unit, const MambaSpec& mamba) {
    if (!mamba.has_conv_bias) return std::nullopt;
    return unit.add({.tensors = {{mamba.module + ".conv1d.bias", {mamba.sizes.convolved()}}},
                     .initial = InitialValues::zeros,
                     .update = shard::UpdateKind::at_own_rate});
}

std::optional<shard::ParameterId> norm_of(shard::UnitLayout& unit, const MambaSpec& mamba) {
    if (!mamba.has_norm) return std::nullopt;
    return unit.add(
        {{{mamba.module + ".norm.weight", {mamba.sizes.values()}}}, InitialValues::ones});
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
      multipliers_(spec.multipliers),
      least_step_(spec.least_step),
      in_(unit, projection(block, spec.module + ".in_proj", block.width,
                           spec.sizes.values() + spec.sizes.columns(), spec.has_bias)),
      conv_(unit.add({{{spec.module + ".conv1d.weight",
                        {spec.sizes.convolved(), 1, attention::rows_before + 1}}}})),
      conv_bias_(conv_bias_of(unit, spec)),
      bias_(
          unit.add({{{spec.module + ".dt_bias", {spec.sizes.value_heads}}}, InitialValues::ones})),
      log_rate_(
          unit.add(of_heads(spec.module + ".A_log", spec.sizes, InitialValues::log_of_places))),
      norm_(norm_of(unit, spec)),
      skip_(unit.add(of_heads(spec.module + ".D", spec.sizes, InitialValues::ones))),
      out_(unit, projection(block, spec.module + ".out_proj", spec.sizes.values(), block.width,
                            spec.has_out_bias)) {}

attention::DeltaWeights Mamba::weights_of(const shard::UnitTensors& weights) const {
    return {weights[conv_],
            {weights[log_rate_], weights[bias_], least_step_},
            conv_bias_ ? weights[*conv_bias_] : at::Tensor(),
            weights[skip_]};
}

ops::NormOfGated Mamba::norm(const shard::UnitTensors& weights) const {
    return {weights[*norm_], epsilon_, norm_groups_};
}

void Mamba::project(const Pass& pass, const at::Tensor& x) const {
    pass.saved[projected_] = in_.forward(pass.context.projections, pass.weights, x);
    scale(pass.saved[projected_]);
}

void Mamba::mix(const Pass& pass) const {
    read_states(pass, columns(pass.saved[projected_], sizes_), weights_of(pass.weights));
}

at::Tensor Mamba::mixed(const Pass& pass) const {
    const at::Tensor& read = pass.saved[read_];
    const at::Tensor of_rows = gates(pass.saved[projected_], sizes_);
    if (!norm_) return read * at::silu(of_rows);
    return ops::norm_of_gated(read, of_rows, norm(pass.weights));
}

Mamba::GatedGradient Mamba::gated_backward(const BackwardPass& pass,
                                           const at::Tensor& d_normed) const {
    const at::Tensor& read = pass.saved[read_];
    const at::Tensor of_rows = gates(pass.saved[projected_], sizes_);
    if (!norm_) return {d_normed * at::silu(of_rows), at::silu_backward(d_normed * read, of_rows)};
    at::Tensor d_gates = at::empty_like(read);
    at::Tensor d_read = ops::norm_of_gated_backward(d_normed, read, of_rows, norm(pass.weights),
                                                    d_gates, pass.gradients[*norm_]);
    return {std::move(d_read), std::move(d_gates)};
}

void Mamba::scale(const at::Tensor& rows) const {
    const DeltaSizes& sizes = sizes_;
    const int64_t widths[] = {sizes.values(), sizes.values(), sizes.keys(), sizes.keys(),
                              sizes.value_heads};
    int64_t begin = 0;
    for (size_t part = 0; part < multipliers_.size(); ++part) {
        if (multipliers_[part] != 1) rows.narrow(1, begin, widths[part]).mul_(multipliers_[part]);
        begin += widths[part];
    }
}

at::Tensor Mamba::rows_gradient(const BackwardPass& pass, at::Tensor dy) const {
    const at::Tensor& rows = pass.saved[projected_];
    const at::Tensor d_normed =
        out_.backward(pass.context.projections, pass.weights, pass.gradients, dy, mixed(pass));
    dy.reset();
    const auto [d_read, d_gates] = gated_backward(pass, d_normed);
    const at::Tensor d_columns = columns_backward(
        pass, columns(rows, sizes_), weights_of(pass.weights), weights_of(pass.gradients), d_read);
    at::Tensor d_rows = at::cat({d_gates, d_columns}, 1);
    scale(d_rows);
    return d_rows;
}

void Mamba::backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const {
    input.backward(pass, in_, rows_gradient(pass, std::move(dy)));
}

}  // namespace ringshard::model
