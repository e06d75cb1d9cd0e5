#pragma once

#include <ATen/ops/empty.h>

#include <span>

#include "../pair_loss.hpp"
#include "ringshard/config/metric_names.hpp"
#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// What a pair of answers costs, plus the cross-entropy of the chosen side, whose mean over the
// targets of all chosen sides has this weight.
template <class Loss>
class LossWithLikelihood : public PairLoss {
public:
    LossWithLikelihood(Loss loss, double weight) : loss_(std::move(loss)), weight_(weight) {}

    bool has_likelihood() const { return weight_ != 0; }
    std::span<const char* const> own_metrics() const { return loss_.own_metrics(); }
    Value of(const PairSide& chosen, const PairSide& rejected,
             double mean_chosen_targets) const override {
        Value value = loss_.of(chosen, rejected);
        if (!has_likelihood()) return value;
        const double of_log_prob = weight_ / mean_chosen_targets;
        value.loss -= of_log_prob * chosen.likelihood;
        value.d_likelihood = -of_log_prob;
        value.further.insert(value.further.end(), {-chosen.likelihood, chosen.all_targets});
        return value;
    }

private:
    Loss loss_;
    double weight_;
};

// Learning from pairs of answers by their log-probabilities: tokens are learned by cross-entropy,
// each times a weight that the loss of its pair gives. `Loss` has of(), whose further numbers are
// config::pair_metrics, and then its own_metrics().
template <class Loss>
class AnswersObjective : public Objective {
public:
    AnswersObjective(Loss loss, double likelihood) : loss_(std::move(loss), likelihood) {}

    std::vector<FurtherNumber> further_numbers() const override {
        std::vector<FurtherNumber> numbers;
        for (const char* name : config::pair_metrics) numbers.push_back({name});
        for (const char* name : loss_.own_metrics()) numbers.push_back({name});
        if (!loss_.has_likelihood()) return numbers;
        const size_t targets = numbers.size() + 1;
        numbers.push_back({config::likelihood_metric, targets});
        numbers.push_back({});
        return numbers;
    }
    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        const at::Tensor stats =
            at::empty({token_stats.size(0), ops::stats_per_token}, token_stats.options());
        of_tokens_->learn(logits, targets, gradient_scale, stats);
        token_stats.zero_();  // what a pair costs is known to its loss
        token_stats.narrow(1, 0, ops::stats_per_token).copy_(stats);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        of_tokens_->evaluate(logits, targets, token_stats);
    }
    const PairLoss* pair_loss() const override { return &loss_; }
    bool averages_chosen_targets() const override { return loss_.has_likelihood(); }

private:
    LossWithLikelihood<Loss> loss_;
    std::shared_ptr<const Objective> of_tokens_ = cross_entropy_objective({});
};

}  // namespace ringshard::model
