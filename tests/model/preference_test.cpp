// Losses of pairs: their slopes against differences of their values, and values that follow from
// their definitions.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "pair_loss.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/model/objective.hpp"

using namespace ringshard;
using config::FDivergence;
using config::LossType;

namespace {

model::PairLoss::Value value_of(const config::TrainingSettings& settings, double chosen,
                                double rejected) {
    const auto objective = model::objective_of(settings);
    return objective->pair_loss()->of({-20 + chosen, -20, 5, -20 + chosen, 5},
                                      {-35 + rejected, -35, 8, -35 + rejected, 8},
                                      {.mean_chosen_targets = 6});
}

config::TrainingSettings settings_of(LossType loss) {
    config::TrainingSettings settings;
    settings.method = config::Method::dpo;
    settings.loss_type = loss;
    settings.beta = 0.3;
    if (loss == LossType::robust || loss == LossType::exo_pair) settings.label_smoothing = 0.1;
    return settings;
}

void check_slopes(const config::TrainingSettings& settings) {
    constexpr double step = 1e-5;
    for (const auto& [chosen, rejected] :
         {std::pair{0.5, -1.2}, {-2.0, 3.0}, {4.0, 1.0}, {0.1, 0.1}}) {
        const auto value = value_of(settings, chosen, rejected);
        const auto slope = [&](double of_chosen, double of_rejected) {
            return (value_of(settings, chosen + of_chosen, rejected + of_rejected).loss -
                    value_of(settings, chosen - of_chosen, rejected - of_rejected).loss) /
                   (2 * step);
        };
        BOOST_TEST(std::abs(value.d_chosen + value.d_likelihood - slope(step, 0)) < 1e-7);
        BOOST_TEST(std::abs(value.d_rejected - slope(0, step)) < 1e-7);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_are_the_slopes_of_losses) {
    for (const LossType loss :
         {LossType::sigmoid, LossType::hinge, LossType::ipo, LossType::exo_pair, LossType::nca_pair,
          LossType::robust, LossType::bco_pair, LossType::sppo_hard, LossType::apo_zero,
          LossType::apo_down, LossType::discopop, LossType::sigmoid_norm})
        BOOST_TEST_CONTEXT("loss " << static_cast<int>(loss)) check_slopes(settings_of(loss));
    for (const LossType loss : {LossType::sigmoid, LossType::hinge, LossType::ipo, LossType::simpo,
                                LossType::alphapo, LossType::orpo})
        BOOST_TEST_CONTEXT("without a reference, loss " << static_cast<int>(loss)) {
            auto settings = settings_of(loss);
            settings.method = config::Method::cpo;
            check_slopes(settings);
            settings.alpha = 0.05;
            if (loss == LossType::sigmoid) settings.label_smoothing = 0.1;
            check_slopes(settings);
        }
    config::TrainingSettings of_rewards;
    of_rewards.method = config::Method::reward;
    check_slopes(of_rewards);
    of_rewards.center_rewards_coefficient = 0.1;
    check_slopes(of_rewards);
    for (const FDivergence divergence :
         {FDivergence::forward_kl, FDivergence::js_divergence, FDivergence::alpha_divergence})
        BOOST_TEST_CONTEXT("divergence " << static_cast<int>(divergence)) {
            auto settings = settings_of(LossType::sigmoid);
            settings.f_divergence_type = divergence;
            check_slopes(settings);
        }
}

BOOST_AUTO_TEST_CASE(gradients_of_single_answers_are_the_slopes_of_their_losses) {
    for (const LossType loss : {LossType::kto, LossType::apo_zero_unpaired}) {
        auto settings = settings_of(loss);
        settings.method = config::Method::kto;
        settings.desirable_weight = 1.3;
        const auto objective = model::objective_of(settings);
        const auto of = [&](double ratio, bool is_desirable) {
            const model::PairSide answer{-20 + ratio, -20, 5, -20 + ratio, 5};
            const model::PairSide none{};
            return objective->pair_loss()->of(
                is_desirable ? answer : none, is_desirable ? none : answer,
                {.desirable = 3, .undesirable = 1, .baseline = loss == LossType::kto ? 0.7 : 0.0});
        };
        constexpr double step = 1e-5;
        for (const bool is_desirable : {true, false})
            for (const double ratio : {-3.0, 0.2, 5.0}) {
                const auto value = of(ratio, is_desirable);
                const double slope =
                    (of(ratio + step, is_desirable).loss - of(ratio - step, is_desirable).loss) /
                    (2 * step);
                BOOST_TEST(std::abs(value.d_chosen + value.d_rejected - slope) < 1e-9);
                BOOST_TEST((is_desirable ? value.d_rejected : value.d_chosen) == 0);
            }
    }
}

BOOST_AUTO_TEST_CASE(a_model_that_is_its_reference_cannot_tell_the_answers) {
    const auto value = value_of(settings_of(LossType::sigmoid), 0, 0);
    BOOST_TEST(value.loss == std::log(2.0), boost::test_tools::tolerance(1e-15));
    BOOST_TEST(value.d_chosen == -0.15, boost::test_tools::tolerance(1e-15));
    const std::vector<double> further{0, 0, 0, 0, -20, -35};
    BOOST_TEST(value.further == further, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rewards_that_no_number_holds_leave_the_loss_finite) {
    for (const LossType loss : {LossType::sigmoid, LossType::robust, LossType::nca_pair}) {
        BOOST_TEST(std::isfinite(value_of(settings_of(loss), -1e5, 1e5).loss));
        BOOST_TEST(std::isfinite(value_of(settings_of(loss), 1e5, -1e5).d_chosen));
    }
}
