#include "gated_delta.hpp"

#include <ATen/ops/empty_like.h>

namespace ringshard::model {

using shard::InitialValues;

namespace {

// Files may have the rates of heads between dimensions of one.
at::Tensor flat(const at::Tensor& x) { return x.defined() ? x.flatten() : x; }

}  // namespace

GatedDelta::GatedDelta(shard::UnitLayout& unit, const Names& names,
                       const attention::DeltaSizes& sizes, double epsilon, ops::Opening opening)
    : value_dim_(sizes.value_dim),
      epsilon_(epsilon),
      opening_(opening),
      conv_(unit.add({.tensors = names.conv})),
      bias_(unit.add({.tensors = {names.bias}, .initial = names.initial_bias})),
      log_rate_(unit.add({.tensors = {names.log_rate},
                          .initial = InitialValues::log_uniform,
                          .update = shard::UpdateKind::decaying})),
      norm_(unit.add({{{names.norm, {sizes.value_dim}}}, InitialValues::ones})) {}

attention::DeltaWeights GatedDelta::weights(const shard::UnitTensors& tensors) const {
    return {tensors[conv_], {flat(tensors[log_rate_]), tensors[bias_]}};
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
