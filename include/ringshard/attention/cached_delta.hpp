#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/attention/sequence_delta.hpp"

namespace ringshard::attention {

// The states of one layer after the tokens so far, while texts are generated: one stretch for each
// text.
struct StateCache {
    at::Tensor states;  // [texts, value_heads, key_dim, value_dim] fp32
    at::Tensor before;  // [texts, rows_before, convolved]
};

// Like SequenceDelta::forward(), but begins with the states in the cache, and overwrites them with
// the last ones.
// The plan's chain has a stretch of each text, whole and uncut: the sequence is not split.
at::Tensor delta_cached(const DeltaSizes& sizes, const at::Tensor& rows,
                        const DeltaWeights& weights, const Plan& plan, const StateCache& cache);

}  // namespace ringshard::attention
