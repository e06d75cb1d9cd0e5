#pragma once

#include <memory>
#include <span>

#include "../pair_loss.hpp"
#include "ringshard/config/metric_names.hpp"
#include "ringshard/config/training_settings.hpp"

namespace ringshard::model {

enum class NeedsAllPairs { no, yes };

// Learning from answers by their log-probabilities: tokens are learned by cross-entropy, each times
// a weight that the loss of its pair gives.
std::shared_ptr<const Objective> answers_objective(std::unique_ptr<const PairLoss> loss,
                                                   NeedsAllPairs needs);

// The weight of the cross-entropy of chosen sides: of the mean over the targets of all of them, or
// over sides of that over the targets of each.
struct Likelihood {
    double weight;
    bool is_per_answer;
};

// What a pair of answers costs, plus the cross-entropy of the chosen side. `Loss` has of(), whose
// further numbers are config::pair_metrics, and then its own_metrics().
template <class Loss>
class LossWithLikelihood : public PairLoss {
public:
    LossWithLikelihood(Loss loss, const Likelihood& likelihood)
        : loss_(std::move(loss)), likelihood_(likelihood) {}

    Value of(const PairSide& chosen, const PairSide& rejected, const AllPairs& all) const override {
        Value value = loss_.of(chosen, rejected);
        const auto [weight, is_per_answer] = likelihood_;
        if (weight == 0) return value;
        const double targets = is_per_answer ? chosen.all_targets : all.mean_chosen_targets;
        const double of_log_prob = weight / targets;
        value.loss -= of_log_prob * chosen.likelihood;
        value.d_likelihood = -of_log_prob;
        if (is_per_answer)
            value.further.push_back(-chosen.likelihood / targets);
        else
            value.further.insert(value.further.end(), {-chosen.likelihood, chosen.all_targets});
        return value;
    }
    std::vector<FurtherNumber> further_numbers() const override {
        std::vector<FurtherNumber> numbers;
        for (const char* name : config::pair_metrics) numbers.push_back({name});
        for (const char* name : loss_.own_metrics()) numbers.push_back({name});
        if (likelihood_.weight == 0) return numbers;
        if (likelihood_.is_per_answer) {
            numbers.push_back({config::likelihood_metric});
            return numbers;
        }
        const size_t targets = numbers.size() + 1;
        numbers.push_back({config::likelihood_metric, targets});
        numbers.push_back({});
        return numbers;
    }

private:
    Loss loss_;
    Likelihood likelihood_;
};

template <class Loss>
std::shared_ptr<const Objective> pairs_objective(Loss loss,
                                                 const config::TrainingSettings& training) {
    const Likelihood likelihood{training.likelihood_weight(), training.likelihood_per_answer};
    const bool needs_all = likelihood.weight != 0 && !likelihood.is_per_answer;
    return answers_objective(
        std::make_unique<const LossWithLikelihood<Loss>>(std::move(loss), likelihood),
        needs_all ? NeedsAllPairs::yes : NeedsAllPairs::no);
}

}  // namespace ringshard::model
