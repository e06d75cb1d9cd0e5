#include "ringshard/ops/routing.hpp"

#include <ATen/ops/index.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <optional>

#include "by_index.hpp"

namespace ringshard::ops {

at::Tensor router_probabilities(const at::Tensor& logits, const RouterForm& form) {
    if (form.is_sigmoid) return at::sigmoid(logits.to(at::kFloat));
    return at::softmax(logits, 1, at::kFloat);
}

namespace {

// Returns the scores of experts in chosen groups, and -inf for all others.
at::Tensor scores_in_groups(const at::Tensor& scores, const RouterForm& form) {
    const at::Tensor by_group =
        scores.view({scores.size(0), form.groups, scores.size(1) / form.groups});
    const at::Tensor of_groups = std::get<0>(at::topk(by_group, form.best_of_group)).sum(-1);
    const at::Tensor chosen = std::get<1>(at::topk(of_groups, form.chosen_groups, 1, true, false));
    const at::Tensor is_left_out = at::ones_like(of_groups, at::kBool).scatter_(1, chosen, 0);
    return by_group.masked_fill(is_left_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
        .view(scores.sizes());
}

}  // namespace

at::Tensor choose_experts(const at::Tensor& probabilities, int64_t k, const RouterForm& form,
                          const at::Tensor& correction) {
    at::Tensor scores = correction.defined() ? probabilities + correction : probabilities;
    if (form.groups > 1) scores = scores_in_groups(scores, form);
    return std::get<0>(at::sort(std::get<1>(at::topk(scores, k)), 1));
}

namespace {

// Returns the divisor of the chosen probabilities [t, k].
at::Tensor divisor_of(const at::Tensor& sum, const RouterForm& form) {
    return sum.clamp_min(form.least_sum) + form.added_to_sum;
}

// Returns the gradient of the chosen probabilities. Of w = p / sum(p) it is (dw - w . dw) / sum(p);
// a divisor that does not move with the sum leaves dw / divisor.
at::Tensor chosen_backward(const at::Tensor& d_weights, const at::Tensor& probabilities,
                           const at::Tensor& experts, const RouterForm& form) {
    if (!form.normalises) return d_weights * form.scaling;
    const at::Tensor chosen = probabilities.gather(1, experts);
    const at::Tensor sum = chosen.sum(1, true);
    const at::Tensor divisor = divisor_of(sum, form);
    const at::Tensor through_sum = (d_weights * (chosen / divisor)).sum(1, true);
    return (d_weights - through_sum * sum.ge(form.least_sum)) / divisor * form.scaling;
}

}  // namespace

at::Tensor expert_weights(const at::Tensor& probabilities, const at::Tensor& experts,
                          const RouterForm& form) {
    at::Tensor weights = probabilities.gather(1, experts);
    if (form.normalises) weights.div_(divisor_of(weights.sum(1, true), form));
    return form.scaling == 1 ? weights : weights.mul_(form.scaling);
}

at::Tensor router_backward(const RouterGradients& gradients, const at::Tensor& probabilities,
                           const at::Tensor& experts, const RouterForm& form) {
    at::Tensor d_probabilities = at::zeros_like(probabilities);
    d_probabilities.scatter_(1, experts,
                             chosen_backward(gradients.d_weights, probabilities, experts, form));
    if (gradients.d_probability.defined())
        d_probabilities.narrow(0, 0, gradients.num_counted).add_(gradients.d_probability);
    if (form.is_sigmoid) return d_probabilities.mul_(probabilities).mul_(1 - probabilities);
    d_probabilities.sub_((d_probabilities * probabilities).sum(1, true));
    return d_probabilities.mul_(probabilities);
}

// LibTorch's index_select does not run on meta tensors.
at::Tensor take_rows_by_index(const at::Tensor& x, const at::Tensor& places) {
    return at::index(x, {std::optional<at::Tensor>(places)});
}

at::Tensor sum_of_experts_by_index(const at::Tensor& rows, const at::Tensor& places) {
    const auto of_choice = [&](int64_t choice) {
        return take_rows_by_index(rows, places.select(1, choice));
    };
    at::Tensor sum = of_choice(0).to(at::kFloat);
    for (int64_t choice = 1; choice < places.size(1); ++choice) sum.add_(of_choice(choice));
    return sum.to(rows.scalar_type());
}

}  // namespace ringshard::ops
