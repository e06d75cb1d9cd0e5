#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/ops/flat.hpp"

// Updates with moments in 8 bits, as bitsandbytes defines them: each block of 256 weights has its
// largest magnitude, and each weight the code of the nearest of 256 values between -1 and 1.
namespace ringshard::ops {

inline constexpr int64_t moment_block = 256;

// The dynamic map of bitsandbytes: 256 values in ascending order, fp32. Unsigned: from 0.
at::Tensor moment_values(bool is_signed, at::Device device);

// A moment of a range of whole blocks.
struct CodedMoment {
    at::Tensor codes;   // uint8, one a weight
    at::Tensor maxima;  // fp32, one a block
    at::Tensor values;  // moment_values()
};

struct CodedAdamWBuffers {
    at::Tensor weights;
    CodedMoment first;   // signed
    CodedMoment second;  // unsigned
    at::Tensor gradient;
    at::Tensor copy;  // gets the new weights rounded to bf16; may be undefined
};
// As adamw(); the moments are rounded after the weights are updated.
void coded_adamw(const CodedAdamWBuffers& buffers, const AdamWStep& step);

struct CodedLionBuffers {
    at::Tensor weights;
    CodedMoment moment;  // signed
    at::Tensor gradient;
    at::Tensor copy;
};
// As lion().
void coded_lion(const CodedLionBuffers& buffers, const LionStep& step);

}  // namespace ringshard::ops
