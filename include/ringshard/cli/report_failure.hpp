#pragma once

#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/agree.hpp"

// Reports the failure that ends a command.
namespace ringshard::cli {

// Prints the failure to stderr. Returns the exit code of the process.
int report_failure(const Failure& failure);

// The same for a failure of all ranks: rank 0 prints it.
int report_failure(const comm::AgreedFailure& failure, const comm::Group& world);

}  // namespace ringshard::cli
