#include "preference.hpp"

#include <algorithm>
#include <cmath>

#include "../pair_loss.hpp"
#include "answers.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/config/training_settings.hpp"
#include "sigmoid.hpp"

namespace ringshard::model {

namespace {

using config::FDivergence;
using config::LossType;

struct Slope {
    double value;
    double derivative;
};

// The score of an answer, from the logarithm of the ratio of its probabilities under both models.
Slope score_of(FDivergence divergence, double alpha, double ratio) {
    constexpr double largest_exponent = 80;  // TRL's
    switch (divergence) {
        case FDivergence::reverse_kl: return {ratio, 1};
        case FDivergence::forward_kl: return {1 - std::exp(-ratio), std::exp(-ratio)};
        case FDivergence::js_divergence:
            return {std::log(2.0) - minus_log_sigmoid(ratio), sigmoid(-ratio)};
        case FDivergence::alpha_divergence: {
            if (std::abs(alpha - 1) < 1e-6) return {ratio, 1};
            const double exponent = (alpha - 1) * ratio;
            const bool is_cut = exponent > largest_exponent;
            const double power = std::exp(std::min(exponent, largest_exponent));
            return {(power - 1) / (alpha - 1), is_cut ? 0 : power};
        }
    }
    RINGSHARD_CHECK(false, "no divergence");
}

// The losses of x = beta x the difference of both scores.
Slope loss_of_difference(const config::TrainingSettings& options, double x) {
    const double epsilon = options.label_smoothing;
    const double right = sigmoid(x);
    const double wrong = sigmoid(-x);
    switch (options.loss_type) {
        case LossType::sigmoid:
        case LossType::sigmoid_norm: return {minus_log_sigmoid(x), -wrong};
        case LossType::hinge: return {std::max(0.0, 1 - x), x < 1 ? -1.0 : 0.0};
        case LossType::exo_pair: {
            const double of_right = -minus_log_sigmoid(x) - std::log1p(-epsilon);
            const double of_wrong = -minus_log_sigmoid(-x) - std::log(epsilon);
            return {right * of_right + wrong * of_wrong, right * wrong * (of_right - of_wrong)};
        }
        case LossType::robust: {
            const double unsmoothed = 1 - 2 * epsilon;
            return {((1 - epsilon) * minus_log_sigmoid(x) - epsilon * minus_log_sigmoid(-x)) /
                        unsmoothed,
                    (-(1 - epsilon) * wrong - epsilon * right) / unsmoothed};
        }
        case LossType::discopop: {
            const double share = sigmoid(x / options.discopop_tau);
            const double logistic = minus_log_sigmoid(x);
            const double exponential = std::exp(-x);
            return {logistic * (1 - share) + exponential * share,
                    -wrong * (1 - share) - exponential * share +
                        (exponential - logistic) * share * (1 - share) / options.discopop_tau};
        }
        default: RINGSHARD_CHECK(false, "not a loss of a difference");
    }
}

struct LossOfRewards {
    double value;
    double d_chosen;
    double d_rejected;
};

// The losses of both rewards, beta x the logarithms of the ratios.
LossOfRewards loss_of_rewards(const config::TrainingSettings& options, double chosen,
                              double rejected) {
    const double p = sigmoid(chosen);
    const double q = sigmoid(rejected);
    switch (options.loss_type) {
        case LossType::nca_pair:
            return {minus_log_sigmoid(chosen) + 0.5 * minus_log_sigmoid(-chosen) +
                        0.5 * minus_log_sigmoid(-rejected),
                    p - 1 + 0.5 * p, 0.5 * q};
        case LossType::bco_pair:
            return {minus_log_sigmoid(chosen) + minus_log_sigmoid(-rejected), p - 1, q};
        case LossType::sppo_hard: {
            // The ratios are to be 1 / (2 beta) and its negative.
            const double beta = options.beta;
            const double of_chosen = (chosen - 0.5) / beta;
            const double of_rejected = (rejected + 0.5) / beta;
            return {of_chosen * of_chosen + of_rejected * of_rejected, 2 * of_chosen / beta,
                    2 * of_rejected / beta};
        }
        case LossType::apo_zero: return {1 - p + q, -p * (1 - p), q * (1 - q)};
        case LossType::apo_down: {
            const double r = sigmoid(chosen - rejected);
            return {p + 1 - r, p * (1 - p) - r * (1 - r), r * (1 - r)};
        }
        default: RINGSHARD_CHECK(false, "not a loss of rewards");
    }
}

class Preference {
public:
    explicit Preference(const config::TrainingSettings& options) : options_(options) {}

    static std::span<const char* const> own_metrics() { return {}; }
    PairLoss::Value of(const PairSide& chosen, const PairSide& rejected) const {
        const double of_chosen = options_.beta * (chosen.score - chosen.reference);
        const double of_rejected = options_.beta * (rejected.score - rejected.reference);
        const auto [loss, d_chosen, d_rejected] = loss_of(chosen, rejected);
        return {loss,
                d_chosen,
                d_rejected,
                {of_chosen, of_rejected, of_chosen > of_rejected ? 1.0 : 0.0,
                 of_chosen - of_rejected, chosen.score, rejected.score}};
    }

private:
    LossOfRewards loss_of(const PairSide& chosen, const PairSide& rejected) const {
        const double beta = options_.beta;
        const double ratio_of_chosen = chosen.score - chosen.reference;
        const double ratio_of_rejected = rejected.score - rejected.reference;
        switch (options_.loss_type) {
            case LossType::nca_pair:
            case LossType::bco_pair:
            case LossType::sppo_hard:
            case LossType::apo_zero:
            case LossType::apo_down: {
                const auto [loss, d_chosen, d_rejected] =
                    loss_of_rewards(options_, beta * ratio_of_chosen, beta * ratio_of_rejected);
                return {loss, beta * d_chosen, beta * d_rejected};
            }
            default: break;
        }
        const auto score = [&](double ratio) {
            return score_of(options_.f_divergence_type, options_.f_alpha_divergence_coef, ratio);
        };
        const Slope of_chosen = score(ratio_of_chosen);
        const Slope of_rejected = score(ratio_of_rejected);
        const bool is_mean =
            options_.loss_type == LossType::ipo || options_.loss_type == LossType::sigmoid_norm;
        const double share_of_chosen = is_mean ? 1 / chosen.targets : 1;
        const double share_of_rejected = is_mean ? 1 / rejected.targets : 1;
        const double difference =
            of_chosen.value * share_of_chosen - of_rejected.value * share_of_rejected;
        const Slope loss = of_difference(difference);
        return {loss.value, loss.derivative * share_of_chosen * of_chosen.derivative,
                -loss.derivative * share_of_rejected * of_rejected.derivative};
    }

    Slope of_difference(double difference) const {
        const double beta = options_.beta;
        if (options_.loss_type == LossType::ipo) {
            const double error = difference - 1 / (2 * beta);
            return {error * error, 2 * error};
        }
        const Slope loss = loss_of_difference(options_, beta * difference);
        return {loss.value, beta * loss.derivative};
    }

    config::TrainingSettings options_;
};

}  // namespace

std::shared_ptr<const Objective> preference_objective(const config::TrainingSettings& training) {
    return pairs_objective(Preference(training), training);
}

}  // namespace ringshard::model
