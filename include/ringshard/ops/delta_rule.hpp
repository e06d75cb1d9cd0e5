#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "ringshard/ops/stretch.hpp"

// Linear attention with a state S [dk, dv] for each head. Each token first scales it down, S = e^g
// S, then updates it and reads it. Computed in fp32, in chunks of 64 tokens: the time is linear in
// the tokens.
namespace ringshard::ops {

// The gated delta rule moves S^T k, the value that the state holds for a key, towards the new
// value,
//     S += k (beta (v - S^T k))^T,  o = S^T q / sqrt(dk),
// with queries and keys of length 1; each row of a state may have a decay of its own, which is the
// rule of Kimi's delta attention. The additive rule, that of Mamba2, adds the value:
//     S += k (beta v)^T,  o = S^T q.
enum class StateRule { delta, additive, delta_by_row };

// Rows of tokens, in stretches (Stretch), each with a state to begin with.
struct DeltaHeads {
    at::Tensor q;          // [t, key heads, dk], fp32 or bf16
    at::Tensor k;          // [t, key heads, dk]
    at::Tensor v;          // [t, value heads, dv]; neighbours read with the same key head
    at::Tensor log_decay;  // [t, value heads, 1], or with dk of them by row, fp32: g, at most 0
    at::Tensor beta;       // [t, value heads], fp32
    StateRule rule = StateRule::delta;
    // What meta tensors stand for: those of a GPU are computed in larger parts.
    c10::DeviceType planned = c10::DeviceType::CPU;
};

// States of each stretch: [stretches, value heads, dk, dv], fp32. `first`: in which they begin,
// zeros where it is undefined; `last`, where it is defined, receives those in which they end. Of
// gradients, `first` is that of the states in which the stretches end.
struct DeltaStates {
    at::Tensor first{};
    at::Tensor last{};
    // [segments, value heads, dk, dv], where it is defined: receives, every thousand tokens or so,
    // the state from which the backward pass goes on.
    at::Tensor between{};
};
at::Tensor make_between(const DeltaHeads& heads, std::span<const Stretch> stretches);

// Returns the outputs o of the tokens: [t, value heads, dv], in the type of v.
at::Tensor delta_rule(const DeltaHeads& heads, std::span<const Stretch> stretches,
                      const DeltaStates& states = {});
// Writes the gradients of the heads, fp32. `states` has `first` and `between` of the forward pass.
void delta_rule_backward(const DeltaHeads& heads, std::span<const Stretch> stretches,
                         const DeltaStates& states, const at::Tensor& d_out,
                         const DeltaHeads& gradients, const DeltaStates& d_states = {});

// A stretch is an affine map of the state: it ends in A S + B where it begins in S. Returns A
// beside B, [stretches, value heads, dk, dk + dv]. Of the additive rule A is one number, which
// stands in each row: [..., dk, 1 + dv].
at::Tensor delta_rule_maps(const DeltaHeads& heads, std::span<const Stretch> stretches);
// As delta_rule_maps(), for gradients of states, from the end of a stretch to its beginning.
at::Tensor delta_rule_backward_maps(const DeltaHeads& heads, std::span<const Stretch> stretches,
                                    const at::Tensor& d_out);

}  // namespace ringshard::ops
