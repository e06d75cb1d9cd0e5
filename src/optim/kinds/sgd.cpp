#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::sgd(const config::TrainingSettings& settings) {
    const auto arguments = config::read_optim_args(settings, config::Optimizer::sgd).value();
    if (arguments.momentum == 0)
        return elementwise({}, [](const StepSize& size) { return ops::SgdRule(size); });
    return elementwise({"momentum_buffer"}, [arguments](const StepSize& size) {
        return ops::MomentumRule(size, arguments.momentum, arguments.dampening, arguments.nesterov);
    });
}

}  // namespace ringshard::optim
