#pragma once

#include <array>

namespace ringshard::config {

// What metrics say of pairs of answers, under TRL's names; evaluation has them with eval_ before.
inline constexpr std::array pair_metrics{"rewards/chosen",     "rewards/rejected",
                                         "rewards/accuracies", "rewards/margins",
                                         "logps/chosen",       "logps/rejected"};

}  // namespace ringshard::config
