#include "norm.hpp"

#include "ringshard/base/text.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

shard::ParameterGroup weight_of(const Norm::Spec& spec) {
    return {{{concat(spec.name, ".weight"), {spec.width}}}, shard::InitialValues::ones};
}

}  // namespace

Norm::Norm(shard::UnitLayout& unit, const Spec& spec)
    : epsilon_(spec.epsilon), weight_(unit.add(weight_of(spec))) {}

ops::RmsNormed Norm::forward(const shard::UnitTensors& weights, const at::Tensor& x) const {
    return ops::rms_norm(x, weights[weight_], epsilon_);
}

at::Tensor Norm::again(const shard::UnitTensors& weights, const at::Tensor& x,
                       const at::Tensor& inverse_rms) const {
    return ops::rms_norm_again(x, weights[weight_], inverse_rms);
}

void Norm::backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                    const at::Tensor& dx) const {
    ops::rms_norm_backward(dy, x, inverse_rms, weights[weight_], dx, gradients[weight_]);
}

HeadNorm::HeadNorm(shard::UnitLayout& unit, SavedLayout& saved, const Norm::Spec& spec,
                   ops::HeadRange range)
    : epsilon_(spec.epsilon),
      range_(range),
      weight_(unit.add(weight_of(spec))),
      before_(saved.add(ActivationPolicy::all_but_gate_up)),
      inverse_rms_(saved.add(ActivationPolicy::all_but_gate_up)) {}

void HeadNorm::forward(const shard::UnitTensors& weights, const at::Tensor& rows,
                       Saved& saved) const {
    const ops::HeadsBeforeNorm before = ops::head_norm(rows, range_, weights[weight_], epsilon_);
    saved[before_] = before.x;
    saved[inverse_rms_] = before.inverse_rms;
}

void HeadNorm::backward(const shard::UnitTensors& weights, const shard::UnitTensors& gradients,
                        const at::Tensor& d_rows, const Saved& saved) const {
    ops::head_norm_backward(d_rows, range_, {saved[before_], saved[inverse_rms_]}, weights[weight_],
                            gradients[weight_]);
}

}  // namespace ringshard::model
