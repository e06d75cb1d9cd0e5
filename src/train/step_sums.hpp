#pragma once

#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// The numbers of a step that all ranks add up, in one reduction: of this rank before it, of the
// world after it.
struct StepSums {
    struct Learner {
        // Of the target tokens, as model::Objective writes them.
        std::vector<double> token_numbers;
        double gradient_squares = 0;

        double loss() const { return token_numbers[0]; }  // in shares of the step
        double entropy() const { return token_numbers[1]; }
        double correct() const { return token_numbers[2]; }
        double further(size_t number) const { return token_numbers[ops::stats_per_token + number]; }
    };
    std::vector<Learner> learners{};
    double aux_loss = 0;  // that balances experts, without its coefficient
    std::vector<double> expert_choices{};
    ControlFlags flags{};
    std::vector<RankTimes> ranks{};  // of every rank; each adds to its own
};

// Collective over the world.
StepSums sum_over(const comm::Group& world, StepSums mine);

}  // namespace ringshard::train
