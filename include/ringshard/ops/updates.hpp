#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ringshard/ops/update_rules.hpp"

// Updates of the weights of a range by a rule, in one pass over the memory.
namespace ringshard::ops {

// What an update reads and writes: fp32, but for the copy and, by a setting, the moments. Moments
// in bf16 are rounded stochastically, since small steps would be lost otherwise; the random bits
// depend on the place and the step alone.
struct UpdateBuffers {
    at::Tensor weights;
    std::vector<at::Tensor> moments{};  // in the order of the rule
    at::Tensor gradient;
    at::Tensor copy{};        // gets the new weights rounded to bf16; may be undefined
    int64_t first_place = 0;  // of the range, among all trained weights
    int64_t step = 1;
};
void update(const UpdateBuffers& buffers, const UpdateRule& rule);

// Moments in 8 bits, as bitsandbytes defines them: each block of 256 weights has its largest
// magnitude, and each weight the code of the nearest of 256 values between -1 and 1.
inline constexpr int64_t moment_block = 256;

// The dynamic map of bitsandbytes: 256 values in ascending order, fp32. Unsigned: from 0.
at::Tensor moment_values(bool is_signed, at::Device device);

// A moment of a range of whole blocks.
struct CodedMoment {
    at::Tensor codes;   // uint8, one a weight
    at::Tensor maxima;  // fp32, one a block
    at::Tensor values;  // moment_values()
};

struct CodedUpdateBuffers {
    at::Tensor weights;
    std::vector<CodedMoment> moments;
    at::Tensor gradient;
    at::Tensor copy;
};
// As update(); the moments are rounded after the weights are updated. The rule has moments.
void coded_update(const CodedUpdateBuffers& buffers, const UpdateRule& rule);

}  // namespace ringshard::ops
