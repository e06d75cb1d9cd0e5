#pragma once

namespace ringshard::comm {

// The terminate handler while MPI runs: prints one line, writes the crash file if there is a
// CrashReport, and ends the whole job with the uncaught exception's exit code.
[[noreturn]] void abort_job();

}  // namespace ringshard::comm
