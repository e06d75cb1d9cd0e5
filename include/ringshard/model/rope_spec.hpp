#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ringshard::model {

// How positions turn the heads: the kinds of transformers that do not depend on the length of a
// row.
enum class RopeKind { plain, linear, llama3, yarn };

struct RopeSpec {
    RopeKind kind = RopeKind::plain;
    double theta = 10000.0;
    double factor = 1.0;
    double original_positions = 0;  // of the model before its context was made longer
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    double fast_rotations = 32.0;  // beta_fast, beta_slow
    double slow_rotations = 1.0;
    bool rounds_dimensions = true;   // truncate
    double attention_scaling = 1.0;  // of cosines and sines
};

// [head_dim / 2], fp32, to the bit as transformers computes them.
at::Tensor inverse_frequencies(const RopeSpec& rope, int64_t head_dim);

}  // namespace ringshard::model
