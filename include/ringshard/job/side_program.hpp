#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/expected.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::job {

// A command of the user that runs beside this program: `/bin/sh -c COMMAND`, in a process group of
// its own, without the variables by which MPI finds the ranks of this job. Its output goes to
// standard error. The destructor kills the group.
class SideProgram {
public:
    // Starts the command with `input` on its standard input.
    static Expected<std::unique_ptr<SideProgram>> start(const std::string& command,
                                                        std::string_view input);
    ~SideProgram();
    SideProgram(const SideProgram&) = delete;
    SideProgram& operator=(const SideProgram&) = delete;

    // Returns how the command ended, as text, empty for success; nothing while it runs.
    std::optional<std::string> poll();
    // Seconds since the start.
    double seconds() const { return since_start_.seconds(); }

private:
    explicit SideProgram(pid_t pid) : pid_(pid) {}

    pid_t pid_;  // 0 when it has ended
    Timer since_start_;
};

// Returns the reason why a shell cannot start the command; empty if nothing stands in the way as
// far as its first word tells.
std::string reason_not_to_start(const std::string& command);

}  // namespace ringshard::job
