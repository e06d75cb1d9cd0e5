#pragma once

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

// `trainer plan`, in one process and without MPI.
int run_plan(const PlanContext& context);

}  // namespace ringshard::cli
