#include "reference_free.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "../pair_loss.hpp"
#include "answers.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/config/training_settings.hpp"
#include "sigmoid.hpp"

namespace ringshard::model {

namespace {

using config::LossType;

class ReferenceFree {
public:
    explicit ReferenceFree(const config::TrainingSettings& options)
        : options_(options),
          has_margin_(options.loss_type == LossType::simpo ||
                      options.loss_type == LossType::alphapo) {}

    std::span<const char* const> own_metrics() const {
        if (options_.loss_type == LossType::orpo) return config::odds_metrics;
        return {};
    }
    PairLoss::Value of(const PairSide& chosen, const PairSide& rejected) const {
        if (options_.loss_type == LossType::orpo) return of_odds(chosen, rejected);
        const double share_of_chosen = share_of(chosen);
        const double share_of_rejected = share_of(rejected);
        const double of_chosen = chosen.score * share_of_chosen;
        const double of_rejected = rejected.score * share_of_rejected;
        const auto [reward_of_chosen, slope_of_chosen] = shaped(of_chosen);
        const auto [reward_of_rejected, slope_of_rejected] = shaped(of_rejected);
        const auto [loss, slope] = loss_of(reward_of_chosen - reward_of_rejected);
        const double beta = options_.beta;
        return {loss,
                slope * slope_of_chosen * share_of_chosen,
                -slope * slope_of_rejected * share_of_rejected,
                {beta * reward_of_chosen, beta * reward_of_rejected,
                 reward_of_chosen > reward_of_rejected ? 1.0 : 0.0,
                 beta * (reward_of_chosen - reward_of_rejected), of_chosen, of_rejected}};
    }

private:
    struct Slope {
        double value;
        double derivative;
    };

    // The odds of an answer are p / (1 - p), where log p is its mean log-probability.
    PairLoss::Value of_odds(const PairSide& chosen, const PairSide& rejected) const {
        const double of_chosen = chosen.score / chosen.targets;
        const double of_rejected = rejected.score / rejected.targets;
        const auto log_odds = [](double log_prob) {
            return Slope{log_prob - std::log(-std::expm1(log_prob)), -1 / std::expm1(log_prob)};
        };
        const Slope odds_of_chosen = log_odds(of_chosen);
        const Slope odds_of_rejected = log_odds(of_rejected);
        const double difference = odds_of_chosen.value - odds_of_rejected.value;
        const double beta = options_.beta;
        const double slope = -beta * sigmoid(-difference);
        return {beta * minus_log_sigmoid(difference),
                slope * odds_of_chosen.derivative / chosen.targets,
                -slope * odds_of_rejected.derivative / rejected.targets,
                {beta * of_chosen, beta * of_rejected, of_chosen > of_rejected ? 1.0 : 0.0,
                 beta * (of_chosen - of_rejected), of_chosen, of_rejected, difference,
                 -minus_log_sigmoid(difference)}};
    }

    // Some losses compare means over the tokens of an answer.
    double share_of(const PairSide& side) const {
        return has_margin_ || options_.loss_type == LossType::ipo ? 1 / side.targets : 1;
    }
    // The reward of an answer, without its factor beta.
    Slope shaped(double log_prob) const {
        const double alpha = options_.alpha;
        if (alpha == 0) return {log_prob, 1};
        const double power = std::exp(-alpha * log_prob);
        return {(1 - power) / alpha, power};
    }
    // Of the difference of both rewards, without their factor.
    Slope loss_of(double difference) const {
        const double beta = options_.beta;
        const double x = beta * difference - (has_margin_ ? options_.simpo_gamma : 0);
        switch (options_.loss_type) {
            case LossType::hinge: return {std::max(0.0, 1 - x), x < 1 ? -beta : 0.0};
            case LossType::ipo: {
                const double error = difference - 1 / (2 * beta);
                return {error * error, 2 * error};
            }
            case LossType::sigmoid:
            case LossType::simpo:
            case LossType::alphapo: {
                const double wrong = options_.label_smoothing;
                return {(1 - wrong) * minus_log_sigmoid(x) + wrong * minus_log_sigmoid(-x),
                        beta * (wrong * sigmoid(x) - (1 - wrong) * sigmoid(-x))};
            }
            default: RINGSHARD_CHECK(false, "not a loss without a reference");
        }
    }

    config::TrainingSettings options_;
    bool has_margin_;
};

}  // namespace

std::shared_ptr<const Objective> reference_free_objective(
    const config::TrainingSettings& training) {
    return pairs_objective(ReferenceFree(training), training);
}

}  // namespace ringshard::model
