#include "elementwise.hpp"
#include "optimizer_kinds.hpp"

namespace ringshard::optim {

OptimizerKind kinds::adamw_8bit(const config::TrainingSettings& settings) {
    return in_eight_bits(adamw(settings), {true, false}, config::Optimizer::adamw);
}

}  // namespace ringshard::optim
