#pragma once

#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// The numbers of a step that all ranks add up, in one reduction: of this rank before it, of the
// world after it.
struct StepSums {
    struct Curve {
        double loss = 0;  // of the target tokens, each times its weight
        double entropy = 0;
        double correct = 0;
        double gradient_squares = 0;
    };
    std::vector<Curve> curves{};  // one, or one of each adapter that trains together
    double aux_loss = 0;          // that balances experts, without its coefficient
    std::vector<double> expert_choices{};
    ControlFlags flags{};
    std::vector<RankTimes> ranks{};  // of every rank; each adds to its own
};

// Collective over the world.
StepSums sum_over(const comm::Group& world, StepSums mine);

}  // namespace ringshard::train
