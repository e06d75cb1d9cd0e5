#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// For each token and value head: the decay of the state, one number or one of each of its rows, and
// the step of the delta rule. fp32.
struct DeltaGates {
    at::Tensor log_decay;  // [t, h, c]: -e^log_rate softplus(a + bias), or bounded below
    at::Tensor beta;       // [t, h]: sigmoid(b), scaled
};
struct DecayWeights {
    at::Tensor log_rate;    // [h], A_log
    at::Tensor bias;        // [h c], dt_bias
    double least_step = 0;  // of the additive rule
    // Below 0: log_decay = least_log_decay sigmoid(e^log_rate (a + bias)).
    double least_log_decay = 0;
    double beta_scale = 1;  // beta = beta_scale sigmoid(b)
};
// a [t, h, c], b [t, h]: fp32 or bf16.
DeltaGates delta_gates(const at::Tensor& a, const at::Tensor& b, const DecayWeights& weights);
// Writes the gradients of a and b, and adds to those of the weights where these are defined.
void delta_gates_backward(const DeltaGates& gradients, const at::Tensor& a, const at::Tensor& b,
                          const DecayWeights& weights, const at::Tensor& da, const at::Tensor& db,
                          const DecayWeights& d_weights);

// The gates of the additive rule, a [t, h, 1]: beta = softplus(a + bias), the length of a step, at
// least least_step, and log_decay = -e^log_rate beta.
DeltaGates step_gates(const at::Tensor& a, const DecayWeights& weights);
void step_gates_backward(const DeltaGates& gradients, const at::Tensor& a,
                         const DecayWeights& weights, const at::Tensor& da,
                         const DecayWeights& d_weights);

// y = weight x / rms(x) * opening(gate), of rows. x, gate and y [n, w], fp32 or bf16; weight [w].
enum class Opening : uint8_t { silu, sigmoid };
struct GatedNorm {
    at::Tensor weight;
    double epsilon;
    Opening opening = Opening::silu;
};
at::Tensor gated_norm(const at::Tensor& x, const at::Tensor& gate, const GatedNorm& norm);
// Returns the gradient of x, of its type; writes that of the gate into d_gate, and adds to
// d_weight, fp32, where it is defined.
at::Tensor gated_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& gate,
                               const GatedNorm& norm, const at::Tensor& d_gate,
                               const at::Tensor& d_weight);

// y = weight n / rms(n), n = x silu(gate), of groups of columns. x, gate and y [t, w], fp32 or
// bf16; weight [w].
struct NormOfGated {
    at::Tensor weight;
    double epsilon;
    int64_t groups;  // divides w
};
at::Tensor norm_of_gated(const at::Tensor& x, const at::Tensor& gate, const NormOfGated& norm);
// As gated_norm_backward().
at::Tensor norm_of_gated_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& gate,
                                  const NormOfGated& norm, const at::Tensor& d_gate,
                                  const at::Tensor& d_weight);

}  // namespace ringshard::ops
