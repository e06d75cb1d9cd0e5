#pragma once

#include "ringshard/base/exit_code.hpp"

namespace ringshard {

// Returns the message and code of the uncaught exception, for terminate handlers.
Failure describe_current_exception();

// The terminate handler of a process without MPI: prints one line and exits with the exception's
// code.
[[noreturn]] void end_process();

// Ends a process whose objects are gone and whose files are closed, without the destructors of
// libraries: LibTorch takes its thousands of operators apart for 150 ms in each rank. A build with
// sanitizers, which report when a process exits, leaves through std::exit.
[[noreturn]] void leave_process(int status);

}  // namespace ringshard
