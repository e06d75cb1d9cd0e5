#pragma once

#include <ATen/core/Tensor.h>

// Operations on flat buffers, as shards are.
namespace ringshard::ops {

// The sum of squares of an fp32 buffer, in blocks of fp32 that are added in double precision in a
// fixed order. (A norm in fp32 over millions of elements is off by 1e-5 and more.)
double sum_of_squares(const at::Tensor& flat);

// into (fp32 or bf16) = from (fp32 or bf16), rounded to nearest even.
void cast(const at::Tensor& into, const at::Tensor& from);

// into (fp32) += from (fp32 or bf16).
void add(const at::Tensor& into, const at::Tensor& from);

struct AdamWStep {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double gradient_scale;  // from clipping
    int64_t step;           // from 1
};
// One update of fp32 weights from their fp32 gradient; moments fp32.
void adamw(const at::Tensor& weights, const at::Tensor& first_moment,
           const at::Tensor& second_moment, const at::Tensor& gradient, const AdamWStep& step);

}  // namespace ringshard::ops
