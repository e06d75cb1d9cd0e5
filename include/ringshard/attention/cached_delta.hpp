#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/attention/sequence_delta.hpp"

namespace ringshard::attention {

// From where the texts of a batch go on in one layer, where texts are generated: one stretch each.
struct StateCache {
    at::Tensor states;  // [texts, value_heads, key_dim, value_dim] fp32
    at::Tensor before;  // [texts, rows_before, convolved]
};

// As SequenceDelta::forward(), but goes on from the cache, and leaves there where the texts end.
// The plan's chain has a stretch of each text, whole and uncut: the sequence is not split.
at::Tensor delta_cached(const DeltaSizes& sizes, const at::Tensor& rows,
                        const DeltaWeights& weights, const Plan& plan, const StateCache& cache);

}  // namespace ringshard::attention
