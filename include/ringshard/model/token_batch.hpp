#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ringshard/attention/plan.hpp"

namespace ringshard::model {

// Distributions over tokens that another model gave, on the host. The k most likely tokens of all s
// tokens of a data set lie in a mapped file; a batch names the n places of its targets there.
struct StoredDistributions {
    at::Tensor places;     // [n] int64
    at::Tensor tokens;     // [s, k] int32
    at::Tensor log_probs;  // [s, k] fp32
};

// What the loss of a pair may depend on: all pairs that are learned in the step, or evaluated.
struct AllPairs {
    double mean_chosen_targets = 1;  // of a pair
    // Of single answers: those that are desirable or not, and the mean of the logarithms of the
    // ratios of the baseline, which is at least 0.
    double desirable = 0;
    double undesirable = 0;
    double baseline = 0;
};

// Pairs of a chosen and a rejected document, p of them, on the host. A side is one of these
// documents: 2 x its pair, and 1 more for the rejected one. A single answer is a pair whose other
// side has no targets.
struct TokenPairs {
    struct Target {
        int64_t side;
        bool is_of_answer;  // else of a prompt
    };
    struct Side {
        double of_answer = 0;  // targets, over the sequence group
        double targets = 0;    // with those of its prompt
        double reference = 0;  // log-probability of the answer under the reference
    };
    std::vector<Target> targets;  // n, of this rank
    std::vector<Side> sides;      // 2 p
    AllPairs all{};
};

// Documents whose embeddings are the sums of rows of the final norm: those of their targets, each
// times a share.
struct EmbeddedDocuments {
    int64_t count = 0;      // over the sequence group
    at::Tensor of_targets;  // [n] int64: the document of each target of this rank
    at::Tensor shares;      // [n] fp32
    // What a backward pass learns: the gradients of the embeddings, and the numbers of each
    // document, of which each target has its share.
    struct Learned {
        at::Tensor gradients;  // [count, width] fp32
        at::Tensor numbers;    // [count, Objective::numbers_per_token] fp32
    };
    std::optional<Learned> learned{};
};

// A micro-batch as one rank sees it: its tokens of the flat list of documents.
struct TokenBatch {
    static constexpr int64_t no_target = -100;

    at::Tensor tokens;                         // [t] int64
    at::Tensor positions;                      // [t] int64, within the document
    at::Tensor target_places;                  // [n] int64, ascending: tokens that have a target
    at::Tensor targets{};                      // [n] int64: the next token of the document
    std::optional<at::Tensor> weights{};       // [n] fp32: of their losses; none: 1 each
    std::vector<attention::Plan> plans{};      // one for each of ModelSpec::masks()
    std::optional<at::Tensor> dropout_keys{};  // [t] int64, random bits; none: no dropout
    at::Tensor document_lengths{};             // [t] int64: of the token's document
    int64_t num_fillers = 0;  // the last tokens, of no document: they only fill the batch up
    // The first of this rank's tokens of each learner, in their order, and the end of the last
    // one's; empty: they are of none.
    std::vector<int64_t> learner_bounds{};
    std::vector<int64_t> target_bounds{};  // the same in the list of targets
    // [n] fp32: where a backward pass writes the norm of the gradient of the row of each target at
    // the input of the head; none: nobody asks.
    std::optional<at::Tensor> gradient_norms{};
    std::optional<StoredDistributions> stored{};   // for an objective that reads it
    std::optional<TokenPairs> pairs{};             // for one of pairs
    std::optional<EmbeddedDocuments> documents{};  // for one of embeddings

    int64_t num_counted() const { return tokens.size(0) - num_fillers; }
};

// The scores of the n targets of a batch.
struct TokenScores {
    at::Tensor token_stats;            // [n, ops::stats_per_token]
    at::Tensor top_tokens;             // [n, top_k] int64: the most likely tokens, the best first
    at::Tensor top_log_probabilities;  // [n, top_k] fp32
};

}  // namespace ringshard::model
