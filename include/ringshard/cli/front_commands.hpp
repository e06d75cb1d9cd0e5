#pragma once

#include "ringshard/base/environment.hpp"
#include "ringshard/cli/invocation.hpp"

// Commands that need no MPI, and no LibTorch but for plan.
namespace ringshard::cli {

int print_help(const Invocation& invocation);
int print_config(const Invocation& invocation, const Environment& environment);
int configure(const Invocation& invocation);
int inspect(const Invocation& invocation);
int plan(const Invocation& invocation, const Environment& environment);
int plot(const Invocation& invocation);
int report_runs(const Invocation& invocation);
int sweep(const Invocation& invocation, const Environment& environment);
int tokenize(const Invocation& invocation, const Environment& environment);
int verify_server(const Invocation& invocation);
int print_version();

bool is_front_command(const Invocation& invocation);
int run_front_command(const Invocation& invocation, const Environment& environment);

}  // namespace ringshard::cli
