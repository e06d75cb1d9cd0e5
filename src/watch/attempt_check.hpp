#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::watch {

// Checks now and then whether a newer attempt of the run has begun, from a thread of its own: the
// heartbeats continue if the file system hangs.
class AttemptCheck {
public:
    // is_due: takes the seconds since the last check, and returns whether this rank has to check.
    // leave: called if a newer attempt has begun. The thread of this class calls both.
    AttemptCheck(double pause, std::function<bool(double)> is_due,
                 std::function<void(const Failure&)> leave);
    ~AttemptCheck() { thread_.request_stop(); }
    AttemptCheck(const AttemptCheck&) = delete;
    AttemptCheck& operator=(const AttemptCheck&) = delete;

    void at_attempt(std::optional<Watchdog::Attempt> attempt);
    std::optional<Watchdog::Attempt> attempt() const;

private:
    void run(const std::stop_token& stop, double pause);

    std::function<bool(double)> is_due_;
    std::function<void(const Failure&)> leave_;
    Timer clock_;
    mutable std::mutex mutex_;  // of the attempt
    std::optional<Watchdog::Attempt> attempt_;
    std::jthread thread_;  // last: it uses the others
};

}  // namespace ringshard::watch
