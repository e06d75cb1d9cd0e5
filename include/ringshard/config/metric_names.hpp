#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "ringshard/config/training_settings.hpp"

namespace ringshard::config {

// What metrics say of pairs of answers, under TRL's names; evaluation has them with eval_ before.
inline constexpr std::array pair_metrics{"rewards/chosen",     "rewards/rejected",
                                         "rewards/accuracies", "rewards/margins",
                                         "logps/chosen",       "logps/rejected"};
// And where the cross-entropy of chosen answers is learned, too.
inline constexpr const char* likelihood_metric = "nll_loss";
// And of loss_type orpo: the logarithm of the ratio of the odds of both answers, and that of its
// sigmoid.
inline constexpr std::array odds_metrics{"log_odds_chosen", "log_odds_ratio"};
// And of single answers: the baseline, if there is one, and means over those that are desirable or
// not.
inline constexpr const char* baseline_metric = "kl";
inline constexpr std::array answer_metrics{"rewards/chosen", "logps/chosen", "rewards/rejected",
                                           "logps/rejected", "rewards/margins"};
// And of pairs that a reward model scores.
inline constexpr std::array reward_metrics{"mean_reward", "accuracy", "margin"};

// The numbers of an evaluation, without eval_.
std::vector<std::string_view> evaluation_metrics(const TrainingSettings& training);
// Those of all methods.
std::vector<std::string_view> all_evaluation_metrics();

}  // namespace ringshard::config
