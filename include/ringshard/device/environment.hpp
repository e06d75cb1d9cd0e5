#pragma once

#include "ringshard/base/environment.hpp"

namespace ringshard::device {

// One of two functions that change the process environment: it sets variables that libraries read
// when they are loaded, unless the user set them, and the folders of a bundle. Called before MPI,
// CUDA or LibTorch start.
void prepare_environment(const Environment& environment);

// Sets the variables in the environment of the process, over others of their names, and returns
// `environment` with them. Before the engine is loaded.
Environment with_variables(const Environment& environment, const Environment::Variables& variables);

}  // namespace ringshard::device
