#pragma once

#include "ringshard/base/environment.hpp"

namespace ringshard::device {

// The only function that changes the process environment: it sets variables that libraries read
// when they are loaded, unless the user set them, and the folders of a bundle. Called before MPI,
// CUDA or LibTorch start.
void prepare_environment(const Environment& environment);

}  // namespace ringshard::device
