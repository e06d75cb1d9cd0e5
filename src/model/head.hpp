#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/model/model_spec.hpp"
#include "ringshard/ops/cross_entropy.hpp"

// The final norm, the projection to the vocabulary and the loss, in chunks of tokens that have a
// target: logits of all tokens never exist. Letters: t tokens of this rank, w width, v vocabulary.
namespace ringshard::model {

struct HeadViews {
    HeadViews(const shard::FlatUnit& unit, const at::Tensor& flat);

    at::Tensor projection;  // [v, w]
    at::Tensor norm;        // [w]
};

struct HeadResult {
    ops::TokenSums sums;
    at::Tensor d_x;  // [t, w]
};
// Loss and gradients in one pass: gradients of gradient_scale x the sum of losses are added up.
HeadResult head_forward_backward(const ModelSpec& spec, const HeadViews& weights,
                                 const HeadViews& gradients, const at::Tensor& x,
                                 const at::Tensor& targets, double gradient_scale,
                                 const ops::LossForm& form);

// The loss alone, for evaluation.
ops::TokenSums head_forward(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                            const at::Tensor& targets, const ops::LossForm& form);

// Logits of some rows of x, for looking at.
at::Tensor head_logits(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x);

}  // namespace ringshard::model
