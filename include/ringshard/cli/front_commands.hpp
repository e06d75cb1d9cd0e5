#pragma once

#include <optional>

#include "ringshard/base/environment.hpp"
#include "ringshard/cli/invocation.hpp"

// Commands that need neither MPI nor LibTorch.
namespace ringshard::cli {

int print_help(const Invocation& invocation);
int print_config(const Invocation& invocation, const Environment& environment);
int configure(const Invocation& invocation);
int print_version();

// Prints a failure to stderr; the exit code of the process.
int tell(const Failure& failure);

// Runs the command if it is one of these.
std::optional<int> run_front_command(const Invocation& invocation, const Environment& environment);

}  // namespace ringshard::cli
