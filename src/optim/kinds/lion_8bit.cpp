#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::lion_8bit(const config::TrainingSettings& settings) {
    return in_eight_bits(lion(settings), {true}, config::Optimizer::lion);
}

}  // namespace ringshard::optim
