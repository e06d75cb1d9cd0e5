#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::model {

// The scores of the n targets of a batch.
struct TokenScores {
    at::Tensor token_stats;  // [n, ops::stats_per_token]
    at::Tensor top_tokens;   // [n, top_k] int64: the most likely tokens, in descending order
    at::Tensor top_log_probabilities;  // [n, top_k] fp32
};

}  // namespace ringshard::model
