#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "parts/low_rank.hpp"
#include "parts/norm.hpp"
#include "parts/trained_rows.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/objective.hpp"
#include "ringshard/model/token_batch.hpp"
#include "ringshard/ops/gemm.hpp"

// The final norm, the projection to the vocabulary and the loss, in chunks of tokens that have a
// target: logits of all tokens never exist. Dimensions: t tokens of this rank,
// n of them with a target, w width, v vocabulary.
namespace ringshard::model {

struct HeadParameters {
    shard::ParameterId projection{};
    std::optional<Norm> norm;  // always there, once declared
    std::optional<shard::ParameterId> bias{};
    std::optional<LowRank> adapter{};  // of the projection
    std::optional<TrainedRows> rows{};
};

// The weights of the head.
struct HeadViews {
    HeadViews(shard::UnitTensors unit, const HeadParameters& parameters);

    shard::UnitTensors unit;
    const Norm& norm;
    at::Tensor projection;    // [v, w]
    at::Tensor bias;          // [v], or undefined
    const LowRank* adapter;   // or nullptr
    const TrainedRows* rows;  // or nullptr
};

struct HeadGradients {
    shard::UnitTensors unit;
    const HeadParameters& parameters;
};

// The rows of x [t, w] that have a target, as TokenBatch has them.
struct HeadTargets {
    explicit HeadTargets(const TokenBatch& batch)
        : places(batch.target_places),
          tokens(batch.targets),
          weights(batch.weights),
          dropout_keys(batch.dropout_keys),
          gradient_norms(batch.gradient_norms),
          stored(batch.stored),
          documents(batch.documents) {}
    HeadTargets of_range(int64_t begin, int64_t length) const;

    at::Tensor places;                         // [n]
    at::Tensor tokens;                         // [n]
    std::optional<at::Tensor> weights;         // [n]
    std::optional<at::Tensor> dropout_keys;    // [t]
    std::optional<at::Tensor> gradient_norms;  // [n]: written by a backward pass
    std::optional<StoredDistributions> stored;
    std::optional<EmbeddedDocuments> documents;
};

struct HeadWork {
    const ops::Gemms& gemms;
    double gradient_scale;
    const Objective& objective;
    int64_t tokens_per_chunk;
};
// Loss and gradients in one pass: gradients of gradient_scale x the sum of losses are added up.
// Writes the gradient of the rows with a target into d_x [t, w]. Returns the numbers of the tokens
// with a target: [n, Objective::numbers_per_token].
at::Tensor head_forward_backward(const ModelSpec& spec, const HeadViews& weights,
                                 const HeadGradients& gradients, const at::Tensor& x,
                                 const HeadTargets& targets, const HeadWork& work,
                                 const at::Tensor& d_x);

// The sums of rows behind the final norm that are the embeddings of the batch's documents, as far
// as this rank has their targets: [count, w] fp32.
at::Tensor embed_documents(const HeadViews& weights, const at::Tensor& x,
                           const HeadTargets& targets, const HeadWork& work);

// What evaluations report: [n, ops::stats_per_token].
at::Tensor head_forward(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                        const HeadTargets& targets, const HeadWork& work);

// The cross-entropy, and the `count` most likely tokens in the place of each target.
struct MostLikely {
    int64_t count;
    double temperature;  // of their log-probabilities
};
TokenScores head_scores(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                        const HeadTargets& targets, const HeadWork& work, const MostLikely& wanted);

// Logits of some rows of x, for looking at.
at::Tensor head_logits(const ModelSpec& spec, const ops::Gemms& gemms, const HeadViews& weights,
                       const at::Tensor& x);

}  // namespace ringshard::model
