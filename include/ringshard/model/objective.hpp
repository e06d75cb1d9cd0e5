#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/ops/cross_entropy.hpp"

namespace ringshard::config {
struct TrainingSettings;
}

namespace ringshard::model {

// The n tokens of a chunk of the head, which have a target.
struct ObjectiveTargets {
    ops::Targets data;              // the next tokens, and the weights of their losses
    at::Tensor stored_tokens{};     // [m, k] int64: TokenBatch::stored, if the objective reads it
    at::Tensor stored_log_probs{};  // [m, k] fp32
    // [m] int64, ascending: the tokens of the chunk that have stored numbers; undefined: all, m = n
    at::Tensor stored_rows{};
    // For an objective of rows: the gradients of its rows [n, width], and the numbers of a token
    // [n, numbers_per_token].
    at::Tensor row_gradients{};
    at::Tensor row_numbers{};
};

// A number of a token. Like the loss, it is multiplied with the weight of its token.
struct FurtherNumber {
    std::string name{};  // in the metrics, which have its mean; empty: only a divisor of others
    // The further number by whose sum that of this one is divided; unset: the weight of all targets
    std::optional<size_t> divisor{};
};

class PairLoss;

// The names in metrics of what ops::stats_per_token has behind the loss; empty: it is left out.
struct StatNames {
    std::string entropy = "entropy";
    std::string accuracy = "mean_token_accuracy";
};

// What a run learns: the loss of a token and its gradient, from the logits. The head calls it with
// one chunk of tokens after the other. One objective is one file in src/model/objectives/.
class Objective {
public:
    virtual ~Objective() = default;

    // Returns true if it learns from the rows of the final norm, which then stand where others have
    // logits; their loss is one of all documents of a step (in_batch.hpp).
    virtual bool learns_rows() const { return false; }

    // The numbers of a token behind those of ops::stats_per_token.
    virtual std::vector<FurtherNumber> further_numbers() const { return {}; }
    int64_t numbers_per_token() const;

    virtual StatNames stat_names() const { return {}; }

    // logits [n, rows of the head]. Writes gradient_scale * d loss / d logits over the logits, and
    // token_stats [n, numbers_per_token], fp32.
    virtual void learn(const at::Tensor& logits, const ObjectiveTargets& targets,
                       double gradient_scale, const at::Tensor& token_stats) const = 0;
    // What evaluations report, from the data alone: token_stats [n, ops::stats_per_token]. The
    // logits stay.
    virtual void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                          const at::Tensor& token_stats) const = 0;
    // The loss of pairs of documents, which says by what the loss of a token is multiplied; null:
    // tokens are learned one by one.
    virtual const PairLoss* pair_loss() const { return nullptr; }
    // Returns true if the loss of a pair depends on AllPairs.
    virtual bool needs_all_pairs() const { return false; }
};

// Cross-entropy of the targets in one of its forms: one pass of one kernel.
std::shared_ptr<const Objective> cross_entropy_objective(const ops::LossForm& form);
// Entropy-adaptive fine-tuning: the cross-entropy of a token times a power of the entropy of its
// most likely tokens, which counts as a constant.
std::shared_ptr<const Objective> entropy_adaptive_objective(double alpha);

// Returns the objective that the settings name.
std::shared_ptr<const Objective> objective_of(const config::TrainingSettings& training);

}  // namespace ringshard::model
