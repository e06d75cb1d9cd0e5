#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <cmath>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

at::Tensor sum_of_squares(const at::Tensor& flat) {
    const int64_t count = flat.numel();
    const at::Tensor of_blocks = at::empty(
        {(count + gpu::elements_per_square - 1) / gpu::elements_per_square}, flat.options());
    gpu::sum_squares(gpu::queue_of(flat), gpu::data<float>(flat), count,
                     gpu::data<float>(of_blocks));
    return of_blocks.sum(at::kDouble);
}

void cast(const at::Tensor& into, const at::Tensor& from) {
    RINGSHARD_CHECK(into.numel() == from.numel());
    into.copy_(from);
}

void add(const at::Tensor& into, const at::Tensor& from) {
    RINGSHARD_CHECK(into.numel() == from.numel());
    into.add_(from);
}

void schedule_free(const ScheduleFreeBuffers& buffers, const ScheduleFreeStep& step) {
    const double second_bias = 1 - std::pow(step.beta2, static_cast<double>(step.step));
    const at::Tensor& second = buffers.second_moment;
    const at::Tensor& gradient = buffers.gradient;
    gpu::schedule_free(gpu::queue_of(buffers.weights),
                       {.weights = gpu::data<float>(buffers.weights),
                        .difference = gpu::data<float>(buffers.difference),
                        .second_moment = second.defined() ? gpu::data<float>(second) : nullptr,
                        .gradient = gradient.defined() ? gpu::data<float>(gradient) : nullptr,
                        .copy_type = gpu::type_of(buffers.copy),
                        .copy = gpu::data(buffers.copy),
                        .count = buffers.weights.numel(),
                        .gradient_scale = static_cast<float>(step.gradient_scale),
                        .decay = static_cast<float>(step.weight_decay),
                        .second_keeps = static_cast<float>(step.beta2),
                        .second_takes = static_cast<float>(1 - step.beta2),
                        .root_scale = static_cast<float>(1 / std::sqrt(second_bias)),
                        .epsilon = static_cast<float>(step.epsilon),
                        .step_size = static_cast<float>(step.learning_rate),
                        .average = static_cast<float>(step.average),
                        .ahead = static_cast<float>(1 - step.beta1)});
}

}  // namespace ringshard::ops::cuda
