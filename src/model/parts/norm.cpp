#include "norm.hpp"

#include <ATen/ops/zeros.h>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

std::string ending_of(const Norm::Spec& spec) {
    return spec.adapter.empty() ? std::string() : "." + spec.adapter;
}

// transformers knows norms by their names, and factors of others decay.
std::optional<shard::UpdateKind> update_of(const Norm::Spec& spec) {
    const std::string name = spec.name.substr(spec.name.rfind('.') + 1);
    const bool is_known = spec.form.is_centred || name == "norm" || name.ends_with("_norm") ||
                          name.find("layernorm") != std::string::npos;
    if (is_known) return std::nullopt;
    return shard::UpdateKind::decaying;
}

shard::ParameterGroup weight_group(const Norm::Spec& spec) {
    using shard::InitialValues;
    return {
        .tensors = {{format_text("{}{}{}", spec.name, ending_of(spec), spec.ending), {spec.width}}},
        .initial = spec.form.adds_one ? InitialValues::zeros : InitialValues::ones,
        .is_made_by_run = !spec.adapter.empty(),
        .update = update_of(spec),
        .variant = spec.number};
}

shard::ParameterGroup bias_group(const Norm::Spec& spec) {
    return {.tensors = {{format_text("{}.bias{}", spec.name, ending_of(spec)), {spec.width}}},
            .initial = shard::InitialValues::zeros,
            .is_made_by_run = !spec.adapter.empty(),
            .variant = spec.number};
}

ops::NormWeight with_offset(at::Tensor weight, const NormForm& form) {
    return {std::move(weight), form.adds_one ? 1.0F : 0.0F};
}

}  // namespace

Norm::Norm(shard::UnitLayout& unit, const Spec& spec)
    : form_(spec.form), width_(static_cast<double>(spec.width)) {
    if (form_.has_weight) weight_ = unit.add(weight_group(spec));
    if (form_.has_bias) bias_ = unit.add(bias_group(spec));
}

ops::NormWeight Norm::weight_of(const shard::UnitTensors& weights) const {
    if (!weight_) return {at::Tensor(), 1.0F};
    return with_offset(weights[*weight_], form_);
}

ops::LayerNorm Norm::layer_norm(const shard::UnitTensors& weights) const {
    return {weight_of(weights), bias_ ? weights[*bias_] : at::Tensor(), form_.epsilon};
}

ops::RmsNormed Norm::forward(const shard::UnitTensors& weights, const at::Tensor& x) const {
    if (form_.is_centred) return {ops::layer_norm(x, layer_norm(weights)), {}};
    return ops::rms_norm(x, weight_of(weights), form_.epsilon);
}

ops::RmsNormed Norm::add_forward(const shard::UnitTensors& weights, const at::Tensor& branch,
                                 double factor, const at::Tensor& x) const {
    return ops::add_rms_norm(branch, factor, x, weight_of(weights), form_.epsilon);
}

at::Tensor Norm::again(const shard::UnitTensors& weights, const at::Tensor& x,
                       const at::Tensor& inverse_rms) const {
    if (form_.is_centred) return ops::layer_norm(x, layer_norm(weights));
    return ops::rms_norm_again(x, weight_of(weights), inverse_rms);
}

void Norm::backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                    const at::Tensor& dx, bool makes_rows) const {
    RINGSHARD_CHECK(!makes_rows || can_make_rows());
    if (form_.is_centred)
        return ops::layer_norm_backward(dy, x, layer_norm(weights), dx,
                                        weight_ ? gradients[*weight_] : at::Tensor(),
                                        bias_ ? gradients[*bias_] : at::Tensor());
    ops::rms_norm_backward(dy, x, inverse_rms, weight_of(weights), dx, gradients[*weight_],
                           makes_rows);
}

std::vector<std::string> Norm::kernels() const {
    return {form_.is_centred ? "layer_norm" : "::Normalize"};
}

std::vector<std::string> Norm::backward_kernels() const {
    return {form_.is_centred ? "layer_norm_grad" : "::NormBackward"};
}

void Norm::add_costs(StageCosts& costs) const {
    costs.add_rows("norms, forward", 2 * width_, kernels());
    // It reads two gradients and the rows, and writes a gradient.
    costs.add_rows("norms, backward", 4 * width_, backward_kernels());
}

void Norm::add_costs_again(StageCosts& costs) const {
    costs.add_rows("norms, again", 2 * width_, kernels());
}

HeadNorm::HeadNorm(shard::UnitLayout& unit, SavedLayout& saved, const Norm::Spec& spec,
                   ops::HeadRange range)
    : form_(spec.form),
      width_(spec.width),
      range_(range),
      before_(saved.add(ActivationPolicy::all_but_gate_up)),
      inverse_rms_(saved.add(ActivationPolicy::all_but_gate_up)) {
    if (form_.has_weight) weight_ = unit.add(weight_group(spec));
}

ops::NormWeight HeadNorm::weight_of(const shard::UnitTensors& weights,
                                    const at::Tensor& rows) const {
    if (!weight_) return {at::zeros({width_}, rows.options()), 1.0F};
    return with_offset(weights[*weight_], form_);
}

void HeadNorm::forward(const shard::UnitTensors& weights, const at::Tensor& rows,
                       Saved& saved) const {
    const ops::HeadsBeforeNorm before =
        ops::head_norm(rows, range_, weight_of(weights, rows), form_.epsilon);
    saved[before_] = before.x;
    saved[inverse_rms_] = before.inverse_rms;
}

void HeadNorm::backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                        const at::Tensor& d_rows, const Saved& saved) const {
    ops::head_norm_backward(d_rows, range_, {saved[before_], saved[inverse_rms_]},
                            weight_of(weights, d_rows),
                            weight_ ? gradients[*weight_] : at::Tensor());
}

}  // namespace ringshard::model
