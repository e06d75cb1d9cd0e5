#include "step_sums.hpp"

namespace ringshard::train {

namespace {

// Visits all numbers, in the order in which sum_over() sends them.
template <class Visit>
void for_each_number(StepSums& sums, Visit visit) {
    for (StepSums::Learner& learner : sums.learners) {
        for (double& number : learner.token_numbers) visit(number);
        visit(learner.gradient_squares);
    }
    visit(sums.aux_loss);
    ControlFlags& flags = sums.flags;
    for (double* number :
         {&flags.save_file, &flags.stop_file, &flags.warning_signal, &flags.end_signal,
          &flags.time_limit, &flags.newer_attempt, &flags.finished_save})
        visit(*number);
    for (double& number : sums.expert_choices) visit(number);
    for (RankTimes& rank : sums.ranks)
        for (double* number : {&rank.compute, &rank.comm_wait, &rank.data_wait}) visit(*number);
}

}  // namespace

StepSums sum_over(const comm::Group& world, StepSums mine) {
    std::vector<double> numbers;
    for_each_number(mine, [&](double& number) { numbers.push_back(number); });
    numbers = world.sum(std::move(numbers));
    auto next = numbers.begin();
    for_each_number(mine, [&](double& number) { number = *next++; });
    return mine;
}

}  // namespace ringshard::train
