#include "optimizer_kinds.hpp"
#include "schedule_free.hpp"

namespace ringshard::optim {

OptimizerKind kinds::schedule_free_sgd(const config::TrainingSettings&) {
    return schedule_free({{"z_minus_x"}});
}

}  // namespace ringshard::optim
