#include "single_answers.hpp"

#include "answers.hpp"
#include "ringshard/config/training_settings.hpp"
#include "sigmoid.hpp"

namespace ringshard::model {

namespace {

// The value of an answer is a sigmoid of how far its reward is above the baseline, below it for an
// undesirable one; its loss is what it lacks to 1.
class SingleAnswerLoss : public PairLoss {
public:
    explicit SingleAnswerLoss(const config::TrainingSettings& options) : options_(options) {}

    Value of(const PairSide& chosen, const PairSide& rejected, const AllPairs& all) const override {
        const bool is_desirable = chosen.targets > 0;
        const PairSide& answer = is_desirable ? chosen : rejected;
        const double ratio = answer.score - answer.reference;
        const double sign = is_desirable ? 1 : -1;
        const double weight =
            is_desirable ? options_.desirable_weight : options_.undesirable_weight;
        const double value = sigmoid(sign * options_.beta * (ratio - all.baseline));
        const double slope = -sign * options_.beta * weight * value * (1 - value);
        return {weight * (1 - value), is_desirable ? slope : 0, is_desirable ? 0 : slope,
                numbers_of(is_desirable, options_.beta * ratio, answer.score, all)};
    }

    std::vector<FurtherNumber> further_numbers() const override {
        const auto& [reward, log_prob, other_reward, other_log_prob, margin] =
            config::answer_metrics;
        std::vector<FurtherNumber> numbers{
            {reward, 2}, {log_prob, 2}, {}, {other_reward, 5}, {other_log_prob, 5},
            {},          {margin, 7},   {}};
        if (options_.has_baseline()) numbers.push_back({config::baseline_metric});
        return numbers;
    }

private:
    // The margin is the difference of two means: each answer has its share in it, where there are
    // answers of both kinds.
    std::vector<double> numbers_of(bool is_desirable, double reward, double log_prob,
                                   const AllPairs& all) const {
        const double of_kind = is_desirable ? all.desirable : -all.undesirable;
        const bool has_margin = all.desirable > 0 && all.undesirable > 0;
        const double share = has_margin ? (all.desirable + all.undesirable) / of_kind : 0;
        const double one = is_desirable ? 1 : 0;
        const double other = 1 - one;
        std::vector<double> numbers{one * reward,   one * log_prob,        one,
                                    other * reward, other * log_prob,      other,
                                    share * reward, has_margin ? 1.0 : 0.0};
        if (options_.has_baseline()) numbers.push_back(all.baseline);
        return numbers;
    }

    config::TrainingSettings options_;
};

}  // namespace

std::shared_ptr<const Objective> single_answers_objective(
    const config::TrainingSettings& training) {
    return answers_objective(std::make_unique<const SingleAnswerLoss>(training),
                             NeedsAllPairs::yes);
}

}  // namespace ringshard::model
