#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::watch {

// Asks now and then whether a newer attempt of the run has begun, from a thread of its own: where a
// file system hangs, the others must go on.
class AttemptCheck {
public:
    // is_due: whether this rank has to ask, so many seconds after it asked last. leave: what to do
    // if a newer attempt has begun. The thread calls both.
    AttemptCheck(double pause, std::function<bool(double)> is_due,
                 std::function<void(const Failure&)> leave);
    ~AttemptCheck() { asking_.request_stop(); }
    AttemptCheck(const AttemptCheck&) = delete;
    AttemptCheck& operator=(const AttemptCheck&) = delete;

    void at_attempt(std::optional<Watchdog::Attempt> attempt);
    std::optional<Watchdog::Attempt> attempt() const;

private:
    void ask(const std::stop_token& stop, double pause);

    std::function<bool(double)> is_due_;
    std::function<void(const Failure&)> leave_;
    Timer clock_;
    mutable std::mutex mutex_;  // of the attempt
    std::optional<Watchdog::Attempt> attempt_;
    std::jthread asking_;  // last: it uses the others
};

}  // namespace ringshard::watch
