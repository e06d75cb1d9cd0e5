#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "parts/norm.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/token_batch.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/gemm.hpp"

// The final norm, the projection to the vocabulary and the loss, in chunks of tokens that have a
// target: logits of all tokens never exist. Dimensions: t tokens of this rank,
// n of them with a target, w width, v vocabulary.
namespace ringshard::model {

struct HeadParameters {
    shard::ParameterId projection{};
    std::optional<Norm> norm;  // always there, once declared
    std::optional<shard::ParameterId> bias{};
};

// The weights of the head.
struct HeadViews {
    HeadViews(shard::UnitTensors unit, const HeadParameters& parameters);

    shard::UnitTensors unit;
    const Norm& norm;
    at::Tensor projection;  // [v, w]
    at::Tensor bias;        // [v], or undefined
};

struct HeadGradients {
    shard::UnitTensors unit;
    const HeadParameters& parameters;
};

struct HeadResult {
    at::Tensor token_stats;  // [n, ops::stats_per_token]
    at::Tensor d_x;          // [t, w]
};
struct HeadWork {
    const ops::Gemms& gemms;
    double gradient_scale;
    const ops::LossForm& loss;
    int64_t tokens_per_chunk;
};
// Loss and gradients in one pass: gradients of gradient_scale x the sum of losses are added up.
HeadResult head_forward_backward(const ModelSpec& spec, const HeadViews& weights,
                                 const HeadGradients& gradients, const at::Tensor& x,
                                 const TokenBatch& batch, const HeadWork& work);

// The loss alone, for evaluation: [n, ops::stats_per_token].
at::Tensor head_forward(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                        const TokenBatch& batch, const HeadWork& work);

// The same, with the `top_k` most likely tokens in the place of each target.
TokenScores head_scores(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                        const TokenBatch& batch, const HeadWork& work, int64_t top_k);

// Logits of some rows of x, for looking at.
at::Tensor head_logits(const ModelSpec& spec, const ops::Gemms& gemms, const HeadViews& weights,
                       const at::Tensor& x);

}  // namespace ringshard::model
