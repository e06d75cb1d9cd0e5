#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// Prints the failure in one line, with rank, host and step, and ends the whole job with its code.
// May be called by any thread.
[[noreturn]] void end_job(const Failure& cause);

// While it lives, an uncaught exception or a signal such as SIGSEGV is reported with rank, host and
// step, and written into a file with a backtrace. At most one exists at a time, since signal
// handlers find it without arguments.
class CrashReport {
public:
    // The file is made only when there is something to say.
    CrashReport(const Group& world, std::filesystem::path file);
    ~CrashReport();
    CrashReport(const CrashReport&) = delete;
    CrashReport& operator=(const CrashReport&) = delete;

    void at_step(int64_t step);  // what is worked on from now on

private:
    std::terminate_handler handler_before_;
};

}  // namespace ringshard::comm
