#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::adagrad(const config::TrainingSettings& settings) {
    const auto arguments = config::read_optim_args(settings, config::Optimizer::adagrad).value();
    return elementwise({"sum"}, [arguments](const StepSize& size) {
        return ops::AdagradRule(size, arguments.lr_decay, arguments.eps);
    });
}

}  // namespace ringshard::optim
