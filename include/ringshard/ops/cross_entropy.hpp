#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ringshard::ops {

// Sums over tokens that have a target.
struct TokenSums {
    double loss = 0;          // of -log p(target), nats
    double entropy = 0;       // of the distributions
    int64_t num_correct = 0;  // the target was the most likely token
    int64_t num_targets = 0;

    TokenSums& operator+=(const TokenSums& other);
};

// logits [t, vocabulary], targets [t] int64, each a token. Writes gradient_scale * d loss / d
// logits over the logits.
TokenSums cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double gradient_scale);

// Without the gradient; the logits stay.
TokenSums cross_entropy_value(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace ringshard::ops
