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

struct AdamWStep {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double gradient_scale;  // from clipping
    int64_t step;           // from 1
};
// The tensors that an update reads and writes, of one range: fp32, but for the copy and, by a
// setting, both moments. Moments in bf16 are rounded stochastically, since small steps would be
// lost otherwise; the random bits depend on the place and the step alone.
struct AdamWBuffers {
    at::Tensor weights;
    at::Tensor first_moment;
    at::Tensor second_moment;
    at::Tensor gradient;
    at::Tensor copy;          // gets the new weights rounded to bf16; may be undefined
    int64_t first_place = 0;  // of the range, in the tensor of all ranks together
};
// One update in one pass over the memory, the copy with it.
void adamw(const AdamWBuffers& buffers, const AdamWStep& step);

struct LionStep {
    double learning_rate;
    double beta1;  // of the mean whose sign is the direction
    double beta2;  // of the mean that is kept
    double weight_decay;
    double gradient_scale;  // from clipping
    int64_t step;           // from 1
};
// As AdamWBuffers, with one moment.
struct LionBuffers {
    at::Tensor weights;
    at::Tensor moment;
    at::Tensor gradient;
    at::Tensor copy;
    int64_t first_place = 0;
};
// One update in one pass: weights -= rate * (sign(beta1 * moment + (1 - beta1) * gradient) +
// weight_decay * weights), then moment = beta2 * moment + (1 - beta2) * gradient.
void lion(const LionBuffers& buffers, const LionStep& step);

struct RmspropStep {
    double learning_rate;
    double keeps;  // the share of the mean of squares that stays
    double epsilon;
    double weight_decay;    // added to the gradient, times the weight
    double gradient_scale;  // from clipping
    int64_t step;           // from 1
};
// One update as torch.optim.RMSprop makes it; the moment is the mean of squares.
void rmsprop(const LionBuffers& buffers, const RmspropStep& step);

struct SgdStep {
    double learning_rate;
    double momentum;
    double dampening;
    bool nesterov;
    double weight_decay;    // added to the gradient, times the weight
    double gradient_scale;  // from clipping
    int64_t step;           // from 1
};
// As LionBuffers; the momentum is undefined where SgdStep has none.
struct SgdBuffers {
    at::Tensor weights;
    at::Tensor momentum;
    at::Tensor gradient;
    at::Tensor copy;
    int64_t first_place = 0;
};
// One update as torch.optim.SGD makes it: the momentum of the first step is the gradient.
void sgd(const SgdBuffers& buffers, const SgdStep& step);

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
