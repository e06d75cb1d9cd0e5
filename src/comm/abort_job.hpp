#pragma once

namespace ringshard::comm {

// The terminate handler while MPI runs: prints one line, writes the crash file if there is a
// CrashReport, ends the whole job with the code of the exception that nobody caught.
[[noreturn]] void abort_job();

}  // namespace ringshard::comm
