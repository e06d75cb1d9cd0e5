#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::rmsprop(const config::TrainingSettings& settings) {
    const auto arguments = config::read_optim_args(settings, config::Optimizer::rmsprop).value();
    return elementwise({"square_avg"}, [arguments](const StepSize& size) {
        return ops::RmspropRule(size, arguments.alpha, arguments.eps);
    });
}

}  // namespace ringshard::optim
