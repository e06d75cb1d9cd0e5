#pragma once

#include "ringshard/base/environment.hpp"

namespace ringshard::device {

// The one place that changes the process environment: settings that libraries read when they are
// loaded, where the user has not chosen, and where a bundle keeps their parts. Called before MPI,
// CUDA or LibTorch start.
void prepare_environment(const Environment& environment);

}  // namespace ringshard::device
