#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

// transformers' Trainer gives torch.optim.RMSprop a rate and a decay alone.
OptimizerKind kinds::rmsprop(const config::TrainingSettings&) {
    constexpr double alpha = 0.99;
    constexpr double epsilon = 1e-8;
    return elementwise({"square_avg"},
                       [](const StepSize& size) { return ops::RmspropRule(size, alpha, epsilon); });
}

}  // namespace ringshard::optim
