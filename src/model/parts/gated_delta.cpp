#include "gated_delta.hpp"

#include <ATen/ops/empty_like.h>

namespace ringshard::model {

using shard::InitialValues;

namespace {

// Files may have the rates of heads between dimensions of one.
at::Tensor flat(const at::Tensor& x) { return x.defined() ? x.flatten() : x; }

}  // namespace

GatedDelta::Form GatedDelta::of_heads(const std::string& module, const attention::DeltaSizes& sizes,
                                      double epsilon) {
    const auto conv = [&](const char* name, int64_t channels) {
        return shard::TensorSpec{module + name, {channels, 1, taps_of_delta}};
    };
    return {.conv = {conv(".q_conv1d.weight", sizes.keys()), conv(".k_conv1d.weight", sizes.keys()),
                     conv(".v_conv1d.weight", sizes.values())},
            .bias = {module + ".dt_bias", {sizes.decays()}},
            .log_rate = {module + ".A_log", {sizes.value_heads}},
            .initial_bias = InitialValues::softplus_of_steps,
            .norm = module + ".o_norm.weight",
            .epsilon = epsilon};
}

GatedDelta::GatedDelta(shard::UnitLayout& unit, const Form& form,
                       const attention::DeltaSizes& sizes)
    : value_dim_(sizes.value_dim),
      epsilon_(form.epsilon),
      opening_(form.opening),
      least_log_decay_(form.least_log_decay),
      beta_scale_(form.beta_scale),
      conv_(unit.add({.tensors = form.conv})),
      bias_(unit.add({.tensors = {form.bias}, .initial = form.initial_bias})),
      log_rate_(unit.add({.tensors = {form.log_rate},
                          .initial = InitialValues::log_uniform,
                          .update = shard::UpdateKind::decaying})),
      norm_(unit.add({{{form.norm, {sizes.value_dim}}}, InitialValues::ones})) {}

attention::DeltaWeights GatedDelta::weights(const shard::UnitTensors& tensors) const {
    return {tensors[conv_],
            {.log_rate = flat(tensors[log_rate_]),
             .bias = tensors[bias_],
             .least_log_decay = least_log_decay_,
             .beta_scale = beta_scale_}};
}

at::Tensor GatedDelta::gated(const shard::UnitTensors& tensors, const at::Tensor& read,
                             const at::Tensor& gates) const {
    return ops::gated_norm(heads(read), heads(gates), norm(tensors)).view(read.sizes());
}

GatedDelta::Gradient GatedDelta::gated_backward(const BackwardPass& pass, const at::Tensor& d_gated,
                                                const at::Tensor& read,
                                                const at::Tensor& gates) const {
    const at::Tensor of_heads = heads(read);
    const at::Tensor d_gates = at::empty_like(of_heads);
    const at::Tensor d_read = ops::gated_norm_backward(
        heads(d_gated), of_heads, heads(gates), norm(pass.weights), d_gates, pass.gradients[norm_]);
    return {d_read, d_gates.view(read.sizes())};
}

}  // namespace ringshard::model
