#pragma once

#include "optimizers.hpp"

namespace ringshard::optim {

// AdamW and SGD that average the points of their steps, as the package schedulefree has them; SGD
// has no second moment among its states.
OptimizerKind schedule_free(std::vector<StateSpec> states);

}  // namespace ringshard::optim
