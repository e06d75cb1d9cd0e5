#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::adamw(const config::TrainingSettings& settings) {
    const bool decouples =
        config::read_optim_args(settings, config::Optimizer::adamw).value().decoupled_weight_decay;
    const double epsilon = settings.adam_epsilon;
    return elementwise({"exp_avg", "exp_avg_sq"},
                       [decouples, epsilon](const StepSize& size) -> ops::UpdateRule {
                           if (decouples)
                               return ops::AdamWRule(size, size.beta1, size.beta2, epsilon);
                           return ops::AdamRule(size, size.beta1, size.beta2, epsilon);
                       });
}

}  // namespace ringshard::optim
