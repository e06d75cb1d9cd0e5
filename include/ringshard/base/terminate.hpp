#pragma once

#include "ringshard/base/exit_code.hpp"

namespace ringshard {

// For terminate handlers: what the exception that nobody caught has to say.
Failure describe_current_exception();

// The terminate handler of a process that speaks to no others: one line, and the exception's code.
[[noreturn]] void end_process();

}  // namespace ringshard
