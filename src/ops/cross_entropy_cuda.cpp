#include <ATen/ops/sum.h>

#include "backends.hpp"
#include "gpu/tensors.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

namespace {

CrossEntropy work_of(const at::Tensor& logits, const Targets& targets, const LossForm& form,
                     const at::Tensor& token_stats) {
    static_assert(stats_per_token == 3);
    RINGSHARD_CHECK(token_stats.size(0) == logits.size(0));
    return {.type = type_of(logits),
            .logits = data(logits),
            .targets = data<int64_t>(targets.tokens),
            .weights = targets.weights.defined() ? data<float>(targets.weights) : nullptr,
            .token_stats = data<float>(token_stats),
            .tokens = logits.size(0),
            .vocabulary = logits.size(1),
            .writes_gradient = false,
            .gradient_scale = 0,
            .times_probability = form.times_probability,
            .smoothing = static_cast<float>(form.smoothing)};
}

}  // namespace

void cross_entropy(const at::Tensor& logits, const Targets& targets, double gradient_scale,
                   const LossForm& form, const at::Tensor& token_stats) {
    CrossEntropy work = work_of(logits, targets, form, token_stats);
    work.writes_gradient = true;
    work.gradient_scale = static_cast<float>(gradient_scale);
    gpu::cross_entropy(queue_of(logits), work);
}

void cross_entropy_value(const at::Tensor& logits, const Targets& targets, const LossForm& form,
                         const at::Tensor& token_stats) {
    gpu::cross_entropy(queue_of(logits), work_of(logits, targets, form, token_stats));
}

at::Tensor sum_of_tokens(const at::Tensor& token_stats) {
    return token_stats.sum(0, false, at::kDouble);
}

}  // namespace ringshard::ops::cuda
