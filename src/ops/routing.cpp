#include "ringshard/ops/routing.hpp"

#include <ATen/ops/index.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <optional>

namespace ringshard::ops {

at::Tensor router_probabilities(const at::Tensor& logits) {
    return at::softmax(logits, 1, at::kFloat);
}

at::Tensor choose_experts(const at::Tensor& probabilities, int64_t k) {
    return std::get<0>(at::sort(std::get<1>(at::topk(probabilities, k)), 1));
}

at::Tensor expert_weights(const at::Tensor& probabilities, const at::Tensor& experts,
                          bool normalises) {
    at::Tensor weights = probabilities.gather(1, experts);
    if (normalises) weights.div_(weights.sum(1, true));
    return weights;
}

namespace {

// Returns the gradient of the chosen probabilities. Of w = p / sum(p) it is (dw - w . dw) / sum(p).
at::Tensor chosen_backward(const at::Tensor& d_weights, const at::Tensor& probabilities,
                           const at::Tensor& experts, bool normalises) {
    if (!normalises) return d_weights;
    const at::Tensor chosen = probabilities.gather(1, experts);
    const at::Tensor sum = chosen.sum(1, true);
    const at::Tensor weights = chosen / sum;
    return (d_weights - (d_weights * weights).sum(1, true)) / sum;
}

}  // namespace

at::Tensor router_backward(const RouterGradients& gradients, const at::Tensor& probabilities,
                           const at::Tensor& experts, bool normalises) {
    at::Tensor d_probabilities = at::zeros_like(probabilities);
    d_probabilities.scatter_(
        1, experts, chosen_backward(gradients.d_weights, probabilities, experts, normalises));
    if (gradients.d_probability.defined())
        d_probabilities.narrow(0, 0, gradients.num_counted).add_(gradients.d_probability);
    d_probabilities.sub_((d_probabilities * probabilities).sum(1, true));
    return d_probabilities.mul_(probabilities);
}

// LibTorch's index_select knows no tensors without numbers.
at::Tensor take_rows(const at::Tensor& x, const at::Tensor& places) {
    return at::index(x, {std::optional<at::Tensor>(places)});
}

at::Tensor sum_of_experts(const at::Tensor& rows, const at::Tensor& places) {
    const auto of_choice = [&](int64_t choice) {
        return take_rows(rows, places.select(1, choice));
    };
    at::Tensor sum = of_choice(0).to(at::kFloat);
    for (int64_t choice = 1; choice < places.size(1); ++choice) sum.add_(of_choice(choice));
    return sum.to(rows.scalar_type());
}

}  // namespace ringshard::ops
