#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// Prints the failure in one line, with rank, host and step, and ends the whole job with its exit
// code. Any thread may call it.
[[noreturn]] void end_job(const Failure& cause);

// Reports an uncaught exception or a signal such as SIGSEGV, as long as this object lives, with
// rank, host and step, and writes a file with a backtrace. At most one object exists at a time,
// since signal handlers find it without arguments.
class CrashReport {
public:
    // A crash creates the file, not the constructor.
    CrashReport(const Group& world, std::filesystem::path file);
    ~CrashReport();
    CrashReport(const CrashReport&) = delete;
    CrashReport& operator=(const CrashReport&) = delete;

    void at_step(int64_t step);  // the step in progress

private:
    std::terminate_handler handler_before_;
};

}  // namespace ringshard::comm
