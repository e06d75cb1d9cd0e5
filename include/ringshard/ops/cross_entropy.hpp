#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ringshard::ops {

// Sums over tokens that have a target.
struct TokenSums {
    double loss = 0;          // in the form that was asked for, nats
    double entropy = 0;       // of the distributions
    int64_t num_correct = 0;  // the target was the most likely token
    int64_t num_targets = 0;

    TokenSums& operator+=(const TokenSums& other);
};

// The loss of a token is -log p(target), or
struct LossForm {
    // times p(target), which counts as a constant: dynamic fine-tuning
    bool times_probability = false;
    // with this share of the target spread evenly over the vocabulary
    double smoothing = 0;
};

// logits [t, vocabulary], targets [t] int64, each a token. Writes gradient_scale * d loss / d
// logits over the logits.
TokenSums cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double gradient_scale,
                        const LossForm& form);

// Without the gradient; the logits stay.
TokenSums cross_entropy_value(const at::Tensor& logits, const at::Tensor& targets,
                              const LossForm& form);

}  // namespace ringshard::ops
