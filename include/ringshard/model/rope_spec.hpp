#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ringshard::model {

// How positions turn the heads. In longrope documents that are longer than the original positions
// turn in another way.
// Proportional ones turn whole heads, of which the frequencies of all but the first part are 0.
enum class RopeKind { plain, linear, llama3, yarn, longrope, proportional };

struct RopeSpec {
    RopeKind kind = RopeKind::plain;
    double theta = 10000.0;
    double factor = 1.0;
    double original_positions = 0;  // of the model before its context was made longer
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    double fast_rotations = 32.0;  // beta_fast, beta_slow
    double slow_rotations = 1.0;
    bool rounds_dimensions = true;        // truncate
    double attention_scaling = 1.0;       // of cosines and sines
    double rotated_part = 1.0;            // of a head, from its first element on
    int64_t rotated_elements = 0;         // in its place; 0: they are that part
    bool is_interleaved = false;          // neighbours are a pair, not elements of the two halves
    std::vector<double> short_factors{};  // of longrope, for each frequency
    std::vector<double> long_factors{};

    int64_t rotated_width(int64_t head_dim) const;
};

// Queries are scaled by 1 + beta * log(1 + floor(position / original_positions)).
struct QueryScale {
    double beta;
    double original_positions;
};

enum class Document { is_short, is_long };  // longer than the original positions

// [rotated_width / 2], fp32, to the bit as transformers computes them.
at::Tensor inverse_frequencies(const RopeSpec& rope, int64_t head_dim,
                               Document document = Document::is_short);

}  // namespace ringshard::model
