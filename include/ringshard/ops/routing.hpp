#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

// Chooses the experts of each token. Dimensions: t tokens, e experts, k experts of a token, n = t k
// rows, one for each choice.
namespace ringshard::ops {

// From logits to the experts of a token and their weights.
struct RouterForm {
    bool is_sigmoid = false;  // of each logit by itself; else the softmax of all of a token
    bool normalises = false;  // the weights of a token's experts: they are divided by their sum
    double least_sum = 0;     // smaller sums count as this
    double added_to_sum = 0;
    double scaling = 1;  // of the weights
    // The experts lie in groups of equal size. A token chooses among those of some groups: of the
    // groups whose best experts, so many of each, have the largest sums.
    int64_t groups = 1;
    int64_t chosen_groups = 1;
    int64_t best_of_group = 2;
};

// Returns the softmax of all logits [t, e], or the sigmoid of each, in fp32.
at::Tensor router_probabilities(const at::Tensor& logits, const RouterForm& form);

// Returns the k experts of each token with the largest probabilities, ascending by their number:
// [t, k] int64. LibTorch's topk decides between equal ones, as in transformers. correction [e]
// fp32: is added to the probabilities before, and to no weight; undefined: nothing.
at::Tensor choose_experts(const at::Tensor& probabilities, int64_t k, const RouterForm& form,
                          const at::Tensor& correction = {});

// Returns the weights of the chosen experts [t, k], fp32.
at::Tensor expert_weights(const at::Tensor& probabilities, const at::Tensor& experts,
                          const RouterForm& form);

// Returns the gradient of the logits [t, e], fp32. d_weights [t, k]: of expert_weights().
// d_probability [e] is what every one of the first num_counted tokens adds to the gradient of its
// probabilities; undefined: nothing.
struct RouterGradients {
    at::Tensor d_weights;
    at::Tensor d_probability{};
    int64_t num_counted = 0;
};
at::Tensor router_backward(const RouterGradients& gradients, const at::Tensor& probabilities,
                           const at::Tensor& experts, const RouterForm& form);

// The rows of all experts, those of an expert side by side, in the order of the tokens.
struct ExpertRows {
    at::Tensor tokens;            // [n] int64: the token of a row
    at::Tensor choices;           // [n] int64: of [t, k], flat
    at::Tensor places;            // [t, k] int64: the row of a choice
    std::vector<int64_t> counts;  // rows of each expert
};
// If `experts` is a meta tensor, the first `planned_experts` get all rows, equally many each;
// 0: all experts do.
ExpertRows rows_by_expert(const at::Tensor& experts, int64_t num_experts,
                          int64_t planned_experts = 0);

// Returns counts (int64) that other ranks may have sent. For a meta tensor it returns
// `expected`.
std::vector<int64_t> counts_on_host(const at::Tensor& counts, const std::vector<int64_t>& expected);

// The rows that several ranks have sent to the experts of this rank.
struct ArrivedRows {
    std::vector<int64_t> counts;  // of each rank, for each expert
    at::Tensor by_expert;         // [m] int64: the places of the rows, expert by expert
    at::Tensor by_rank;           // [m] int64: the inverse
};
// counts [ranks, experts] int64, wherever it is. The rows of a rank lie side by side, those of an
// expert side by side in them. `expected`: what the first of these ranks sends to the experts of
// all ranks. If counts is a meta tensor, each rank sends as many rows to its experts as the
// first does.
ArrivedRows arrived_rows(const at::Tensor& counts, const std::vector<int64_t>& expected);

// Returns the rows of x [rows, ...] at these places.
at::Tensor take_rows(const at::Tensor& x, const at::Tensor& places);

// Returns the sum of the rows of each token [t, width], added in fp32 in the order of its experts,
// so that it does not depend on other tokens.
at::Tensor sum_of_experts(const at::Tensor& rows, const at::Tensor& places);

}  // namespace ringshard::ops
