#pragma once

#include <ATen/core/Tensor.h>

// Operations on flat buffers, as shards are.
namespace ringshard::ops {

// The sum of squares of an fp32 buffer, in blocks of fp32 that are added in double precision in a
// fixed order: one double, where the buffer is. (A norm in fp32 over millions of elements is off by
// 1e-5 and more.)
at::Tensor sum_of_squares(const at::Tensor& flat);

// into (fp32 or bf16) = from (fp32 or bf16), rounded to nearest even.
void cast(const at::Tensor& into, const at::Tensor& from);

// into (fp32) += from (fp32 or bf16).
void add(const at::Tensor& into, const at::Tensor& from);

struct ScheduleFreeStep {
    double learning_rate;
    double beta1;  // share of the average in the point of gradients
    double beta2;
    double epsilon;
    double weight_decay;
    double gradient_scale;  // from clipping
    double average;         // share of the new point in the average
    int64_t step;           // from 1
};
// The weights are the average x of the points z of the steps; the states hold z - x, zero before
// the first step. The copy gets the point of gradients, x + (1 - beta1) (z - x), in fp32 or bf16.
struct ScheduleFreeBuffers {
    at::Tensor weights;
    at::Tensor difference;     // z - x
    at::Tensor second_moment;  // undefined: z follows the gradient itself
    at::Tensor gradient;       // undefined: the copy is written and nothing else
    at::Tensor copy;
};
// One update in one pass, as the package schedulefree makes it. The decay is that of the point of
// gradients.
void schedule_free(const ScheduleFreeBuffers& buffers, const ScheduleFreeStep& step);

}  // namespace ringshard::ops
