#include "ringshard/ops/delta_gates.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus.h>

#include "rows.hpp"

namespace ringshard::ops {

namespace {

at::Tensor fp32(const at::Tensor& x) { return x.to(at::kFloat); }

at::Tensor rates(const DecayWeights& weights) { return fp32(weights.log_rate).exp().unsqueeze(1); }
at::Tensor bias_of(const at::Tensor& a, const DecayWeights& weights) {
    return weights.bias.view({a.size(1), a.size(2)});
}
at::Tensor with_bias(const at::Tensor& a, const DecayWeights& weights) {
    return fp32(a) + fp32(bias_of(a, weights));
}

// Slices of this size stay in a cache of the CPU.
int64_t elements_of_slice(const at::Tensor& x) { return int64_t{1} << (x.is_cuda() ? 24 : 18); }

struct NormedByRms {
    at::Tensor x;        // fp32, of rms 1
    at::Tensor inverse;  // [..., 1]: 1 / rms
};
NormedByRms normalize_by_rms(const at::Tensor& rows, double epsilon) {
    const at::Tensor x = fp32(rows);
    const at::Tensor inverse = x.square().mean({-1}, true).add_(epsilon).rsqrt_();
    return {x * inverse, inverse};
}

at::Tensor opened(const at::Tensor& gate, Opening opening) {
    return opening == Opening::silu ? at::silu(gate) : at::sigmoid(gate);
}
at::Tensor opened_backward(const at::Tensor& d, const at::Tensor& gate, Opening opening) {
    return opening == Opening::silu ? at::silu_backward(d, gate)
                                    : at::sigmoid_backward(d, at::sigmoid(gate));
}

}  // namespace

// The sigmoid is rounded to the type of b, as transformers does.
DeltaGates delta_gates(const at::Tensor& a, const at::Tensor& b, const DecayWeights& weights) {
    at::Tensor x = with_bias(a, weights);
    const double least = weights.least_log_decay;
    return {least < 0 ? x.mul_(rates(weights)).sigmoid_().mul_(least)
                      : at::softplus(x).mul_(rates(weights)).neg_(),
            times(weights.beta_scale, fp32(at::sigmoid(b)))};
}

namespace {

struct DecayGradient {
    at::Tensor x;
    at::Tensor log_rate;  // of every token and element
};

// d: the gradient of -e^log_rate softplus(x).
DecayGradient decay_backward(const at::Tensor& d, const at::Tensor& x,
                             const DecayWeights& weights) {
    const at::Tensor of_softplus = (d * rates(weights)).neg_();
    return {of_softplus * at::sigmoid(x), of_softplus * at::softplus(x)};
}

// d: the gradient of least_log_decay sigmoid(e^log_rate x).
DecayGradient bounded_backward(const at::Tensor& d, const at::Tensor& x,
                               const DecayWeights& weights) {
    const at::Tensor open = at::sigmoid(x * rates(weights));
    const at::Tensor dx =
        (d * weights.least_log_decay).mul_(open * (1 - open)).mul_(rates(weights));
    return {dx, dx * x};
}

}  // namespace

void delta_gates_backward(const DeltaGates& gradients, const at::Tensor& a, const at::Tensor& b,
                          const DecayWeights& weights, const at::Tensor& da, const at::Tensor& db,
                          const DecayWeights& d_weights) {
    const at::Tensor x = with_bias(a, weights);
    const auto [dx, d_log_rate] = weights.least_log_decay < 0
                                      ? bounded_backward(gradients.log_decay, x, weights)
                                      : decay_backward(gradients.log_decay, x, weights);
    if (d_weights.log_rate.defined())
        d_weights.log_rate.add_(d_log_rate.sum(at::IntArrayRef{0, 2}));
    if (d_weights.bias.defined()) d_weights.bias.add_(dx.sum({0}).flatten());
    da.copy_(dx);
    const at::Tensor beta = at::sigmoid(fp32(b));
    db.copy_(times(weights.beta_scale, gradients.beta * beta * (1 - beta)));
}

// softplus is rounded to the type of a, as transformers does.
DeltaGates step_gates(const at::Tensor& a, const DecayWeights& weights) {
    const at::Tensor step = fp32(
        at::softplus(a + bias_of(a, weights).to(a.scalar_type())).clamp_min_(weights.least_step));
    return {(step * rates(weights)).neg_(), step.squeeze(2)};
}

void step_gates_backward(const DeltaGates& gradients, const at::Tensor& a,
                         const DecayWeights& weights, const at::Tensor& da,
                         const DecayWeights& d_weights) {
    const at::Tensor x = with_bias(a, weights);
    const at::Tensor step = at::softplus(x);
    const at::Tensor of_decay = (gradients.log_decay * rates(weights)).neg_();
    if (d_weights.log_rate.defined())
        d_weights.log_rate.add_(
            (of_decay * step.clamp_min(weights.least_step)).sum(at::IntArrayRef{0, 2}));
    const at::Tensor dx = (gradients.beta.unsqueeze(2) + of_decay).mul_(at::sigmoid(x));
    if (weights.least_step > 0) dx.mul_(step.ge(weights.least_step));
    if (d_weights.bias.defined()) d_weights.bias.add_(dx.sum({0}).flatten());
    da.copy_(dx);
}

at::Tensor gated_norm(const at::Tensor& x, const at::Tensor& gate, const GatedNorm& norm) {
    at::Tensor y = at::empty_like(x);
    for_slices(x, elements_of_slice(x), [&](auto slice) {
        // Rounded on the way as transformers does.
        const at::Tensor normed = normalize_by_rms(slice(x), norm.epsilon).x.to(x.scalar_type());
        slice(y).copy_(fp32(normed * norm.weight).mul_(opened(fp32(slice(gate)), norm.opening)));
    });
    return y;
}

// With n the normed x, g = weight opening(gate) dy: dx = (g - n mean(n g)) / rms.
at::Tensor gated_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& gate,
                               const GatedNorm& norm, const at::Tensor& d_gate,
                               const at::Tensor& d_weight) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor weight = fp32(norm.weight);
    for_slices(x, elements_of_slice(x), [&](auto slice) {
        const NormedByRms normed = normalize_by_rms(slice(x), norm.epsilon);
        const at::Tensor d = fp32(slice(dy));
        const at::Tensor z = fp32(slice(gate));
        slice(d_gate).copy_(opened_backward(d * normed.x * weight, z, norm.opening));
        const at::Tensor d_product = d * opened(z, norm.opening);
        if (d_weight.defined()) d_weight.add_((d_product * normed.x).sum({0}));
        const at::Tensor gradient = d_product.mul_(weight);
        const at::Tensor common = (gradient * normed.x).mean({1}, true);
        slice(dx).copy_(gradient.sub_(normed.x * common).mul_(normed.inverse));
    });
    return dx;
}

at::Tensor norm_of_gated(const at::Tensor& x, const at::Tensor& gate, const NormOfGated& norm) {
    at::Tensor y = at::empty_like(x);
    for_slices(x, elements_of_slice(x), [&](auto slice) {
        const at::Tensor gated = fp32(slice(x)).mul(at::silu(fp32(slice(gate))));
        const at::Tensor normed =
            normalize_by_rms(gated.unflatten(1, {norm.groups, -1}), norm.epsilon).x.flatten(1);
        slice(y).copy_(normed.to(x.scalar_type()) * norm.weight);
    });
    return y;
}

// With m the normed rows, g = weight dy: dn = (g - m mean(m g)) / rms.
at::Tensor norm_of_gated_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& gate,
                                  const NormOfGated& norm, const at::Tensor& d_gate,
                                  const at::Tensor& d_weight) {
    at::Tensor dx = at::empty_like(x);
    const at::Tensor weight = fp32(norm.weight);
    for_slices(x, elements_of_slice(x), [&](auto slice) {
        const auto in_groups = [&](const at::Tensor& rows) {
            return rows.unflatten(1, {norm.groups, -1});
        };
        const at::Tensor rows = fp32(slice(x));
        const at::Tensor z = fp32(slice(gate));
        const at::Tensor opening = at::silu(z);
        const NormedByRms normed = normalize_by_rms(in_groups(rows * opening), norm.epsilon);
        const at::Tensor d = fp32(slice(dy));
        if (d_weight.defined()) d_weight.add_((d * normed.x.flatten(1)).sum({0}));
        const at::Tensor gradient = in_groups(d * weight);
        const at::Tensor common = (gradient * normed.x).mean({-1}, true);
        const at::Tensor d_gated = (gradient - normed.x * common).mul_(normed.inverse).flatten(1);
        slice(dx).copy_(d_gated * opening);
        slice(d_gate).copy_(at::silu_backward(d_gated * rows, z));
    });
    return dx;
}

}  // namespace ringshard::ops
