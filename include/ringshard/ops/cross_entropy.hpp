#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ringshard::ops {

// The loss of a token is -log p(target), or
struct LossForm {
    // times p(target), which counts as a constant: dynamic fine-tuning
    bool times_probability = false;
    // with this share of the target spread evenly over the vocabulary
    double smoothing = 0;
};

// The statistics of a token: its loss in the requested form times its weight, in nats; the entropy
// of its distribution; 1 if the target was the most likely token, else 0.
constexpr int64_t stats_per_token = 3;

struct Targets {
    at::Tensor tokens;     // [t] int64
    at::Tensor weights{};  // [t] fp32: factors of the losses; undefined: 1 each

    at::Tensor weighted(const at::Tensor& numbers) const {
        return weights.defined() ? numbers.mul(weights) : numbers;
    }
};

// logits [t, vocabulary]. Writes gradient_scale * d loss / d logits over the logits, and
// token_stats [t, stats_per_token], fp32.
void cross_entropy(const at::Tensor& logits, const Targets& targets, double gradient_scale,
                   const LossForm& form, const at::Tensor& token_stats);

// Without the gradient; the logits stay.
void cross_entropy_value(const at::Tensor& logits, const Targets& targets, const LossForm& form,
                         const at::Tensor& token_stats);

// Sums over tokens that have a target.
struct TokenSums {
    double loss = 0;
    double entropy = 0;
    int64_t num_correct = 0;
    int64_t num_targets = 0;

    TokenSums& operator+=(const TokenSums& other);
};
// Returns the sums of the statistics over all tokens, where these are: as many as a token has
// numbers, in double precision and a fixed order.
at::Tensor sum_of_tokens(const at::Tensor& token_stats);
// Reads the sums of `num_targets` tokens.
TokenSums read_sums(const double* sum_of_tokens, int64_t num_targets);
// Both. Waits for the device.
TokenSums add_up(const at::Tensor& token_stats);

}  // namespace ringshard::ops
