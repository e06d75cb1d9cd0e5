#pragma once

#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/agree.hpp"

// How a command says that it cannot go on.
namespace ringshard::cli {

// To stderr; the exit code of the process.
int tell(const Failure& failure);

// From one rank, for all of them.
int tell(const comm::AgreedFailure& failure, const comm::Group& world);

}  // namespace ringshard::cli
