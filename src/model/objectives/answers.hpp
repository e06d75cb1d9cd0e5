#pragma once

#include <memory>
#include <span>

#include "../pair_loss.hpp"
#include "ringshard/config/metric_names.hpp"

namespace ringshard::model {

enum class NeedsAllPairs { no, yes };

// Learning from answers by their log-probabilities: tokens are learned by cross-entropy, each times
// a weight that the loss of its pair gives.
std::shared_ptr<const Objective> answers_objective(std::unique_ptr<const PairLoss> loss,
                                                   NeedsAllPairs needs);

// What a pair of answers costs, plus the cross-entropy of the chosen side, whose mean over the
// targets of all chosen sides has this weight. `Loss` has of(), whose further numbers are
// config::pair_metrics, and then its own_metrics().
template <class Loss>
class LossWithLikelihood : public PairLoss {
public:
    LossWithLikelihood(Loss loss, double weight) : loss_(std::move(loss)), weight_(weight) {}

    Value of(const PairSide& chosen, const PairSide& rejected, const AllPairs& all) const override {
        Value value = loss_.of(chosen, rejected);
        if (weight_ == 0) return value;
        const double of_log_prob = weight_ / all.mean_chosen_targets;
        value.loss -= of_log_prob * chosen.likelihood;
        value.d_likelihood = -of_log_prob;
        value.further.insert(value.further.end(), {-chosen.likelihood, chosen.all_targets});
        return value;
    }
    std::vector<FurtherNumber> further_numbers() const override {
        std::vector<FurtherNumber> numbers;
        for (const char* name : config::pair_metrics) numbers.push_back({name});
        for (const char* name : loss_.own_metrics()) numbers.push_back({name});
        if (weight_ == 0) return numbers;
        const size_t targets = numbers.size() + 1;
        numbers.push_back({config::likelihood_metric, targets});
        numbers.push_back({});
        return numbers;
    }

private:
    Loss loss_;
    double weight_;
};

template <class Loss>
std::shared_ptr<const Objective> pairs_objective(Loss loss, double likelihood) {
    return answers_objective(
        std::make_unique<const LossWithLikelihood<Loss>>(std::move(loss), likelihood),
        likelihood == 0 ? NeedsAllPairs::no : NeedsAllPairs::yes);
}

}  // namespace ringshard::model
