#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::lion(const config::TrainingSettings&) {
    return elementwise({"exp_avg"}, [](const StepSize& size) {
        return ops::LionRule(size, size.beta1, size.beta2);
    });
}

}  // namespace ringshard::optim
