#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "ringshard/ops/stretch.hpp"

// The gated delta rule. A head has a state S [dk, dv]; a token first lets it decay, S = e^g S, then
// moves what the state answers to its key towards its value, S += k (beta (v - S^T k))^T, and reads
// with its query, o = S^T q / sqrt(dk). Queries and keys are first brought to length 1. Computed in
// fp32, in chunks of 64 tokens: the time is linear in their number.
namespace ringshard::ops {

// Rows of tokens, in stretches that begin with the states that they are given.
struct DeltaHeads {
    at::Tensor q;          // [t, key heads, dk], fp32 or bf16
    at::Tensor k;          // [t, key heads, dk]
    at::Tensor v;          // [t, value heads, dv]; neighbours read with the same key head
    at::Tensor log_decay;  // [t, value heads], fp32: g, at most 0
    at::Tensor beta;       // [t, value heads], fp32
};

// States of each stretch: [stretches, value heads, dk, dv], fp32. `first`: in which they begin,
// zeros where it is undefined; `last`, where it is defined, receives those in which they end. Of
// gradients, `first` is that of the states in which the stretches end.
struct DeltaStates {
    at::Tensor first{};
    at::Tensor last{};
};

// Returns what the tokens read: [t, value heads, dv], of the type of v.
at::Tensor delta_rule(const DeltaHeads& heads, std::span<const Stretch> stretches,
                      const DeltaStates& states = {});
// Writes the gradients of the heads, fp32.
void delta_rule_backward(const DeltaHeads& heads, std::span<const Stretch> stretches,
                         const at::Tensor& first_state, const at::Tensor& d_out,
                         const DeltaHeads& gradients, const DeltaStates& d_states = {});

// A stretch is an affine map of the state: it ends in A S + B where it begins in S. Returns A
// beside B, [stretches, value heads, dk, dk + dv].
at::Tensor delta_rule_maps(const DeltaHeads& heads, std::span<const Stretch> stretches);
// The same of the gradients of states, from the end of a stretch to its beginning.
at::Tensor delta_rule_backward_maps(const DeltaHeads& heads, std::span<const Stretch> stretches,
                                    const at::Tensor& d_out);

}  // namespace ringshard::ops
