#include <cmath>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

namespace {

gpu::CodedMoment moment_of(const CodedMoment& moment) {
    return {moment.codes.data_ptr<uint8_t>(), gpu::data<float>(moment.maxima),
            gpu::data<float>(moment.values)};
}

}  // namespace

void coded_adamw(const CodedAdamWBuffers& buffers, const AdamWStep& step) {
    RINGSHARD_CHECK(buffers.weights.numel() % moment_block == 0);
    const auto count = static_cast<double>(step.step);
    gpu::coded_adamw(
        gpu::queue_of(buffers.weights),
        {.weights = gpu::data<float>(buffers.weights),
         .first = moment_of(buffers.first),
         .second = moment_of(buffers.second),
         .gradient = gpu::data<float>(buffers.gradient),
         .copy = buffers.copy.defined() ? gpu::data(buffers.copy) : nullptr,
         .blocks = buffers.weights.numel() / moment_block,
         .gradient_scale = static_cast<float>(step.gradient_scale),
         .decay = static_cast<float>(1 - step.learning_rate * step.weight_decay),
         .first_keeps = static_cast<float>(step.beta1),
         .first_takes = static_cast<float>(1 - step.beta1),
         .second_keeps = static_cast<float>(step.beta2),
         .second_takes = static_cast<float>(1 - step.beta2),
         .step_size = static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, count))),
         .root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, count))),
         .epsilon = static_cast<float>(step.epsilon)});
}

void coded_lion(const CodedLionBuffers& buffers, const LionStep& step) {
    RINGSHARD_CHECK(buffers.weights.numel() % moment_block == 0);
    gpu::coded_lion(gpu::queue_of(buffers.weights),
                    {.weights = gpu::data<float>(buffers.weights),
                     .moment = moment_of(buffers.moment),
                     .gradient = gpu::data<float>(buffers.gradient),
                     .copy = buffers.copy.defined() ? gpu::data(buffers.copy) : nullptr,
                     .blocks = buffers.weights.numel() / moment_block,
                     .gradient_scale = static_cast<float>(step.gradient_scale),
                     .decay = static_cast<float>(1 - step.learning_rate * step.weight_decay),
                     .direction_keeps = static_cast<float>(step.beta1),
                     .direction_takes = static_cast<float>(1 - step.beta1),
                     .moment_keeps = static_cast<float>(step.beta2),
                     .moment_takes = static_cast<float>(1 - step.beta2),
                     .step_size = static_cast<float>(step.learning_rate)});
}

}  // namespace ringshard::ops::cuda
