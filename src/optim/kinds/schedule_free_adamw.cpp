#include "optimizer_kinds.hpp"
#include "schedule_free.hpp"

namespace ringshard::optim {

OptimizerKind kinds::schedule_free_adamw(const config::TrainingSettings&) {
    return schedule_free({{"z_minus_x"}, {"exp_avg_sq"}});
}

}  // namespace ringshard::optim
