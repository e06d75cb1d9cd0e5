#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::watch {

// Checks regularly whether a newer attempt of the run has begun. It has its own thread, so that
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
    mutable std::mutex mutex_;  // guards attempt_
    std::optional<Watchdog::Attempt> attempt_;
    std::jthread thread_;  // last, since it uses the other members
};

}  // namespace ringshard::watch
