#pragma once

#include "ringshard/base/exit_code.hpp"

namespace ringshard {

// Returns the message and code of the uncaught exception, for terminate handlers.
Failure describe_current_exception();

// The terminate handler of a process without MPI: prints one line and exits with the exception's
// code.
[[noreturn]] void end_process();

}  // namespace ringshard
