#include "attempt_check.hpp"

#include <chrono>
#include <condition_variable>

namespace ringshard::watch {

AttemptCheck::AttemptCheck(double pause, std::function<bool(double)> is_due,
                           std::function<void(const Failure&)> leave)
    : is_due_(std::move(is_due)),
      leave_(std::move(leave)),
      thread_([this, pause](const std::stop_token& stop) { run(stop, pause); }) {}

void AttemptCheck::at_attempt(std::optional<Watchdog::Attempt> attempt) {
    const std::lock_guard lock(mutex_);
    attempt_ = std::move(attempt);
}

std::optional<Watchdog::Attempt> AttemptCheck::attempt() const {
    const std::lock_guard lock(mutex_);
    return attempt_;
}

void AttemptCheck::run(const std::stop_token& stop, double pause) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never_notified;
    double checked_at = 0;
    while (!never_notified.wait_for(lock, stop, std::chrono::duration<double>(pause), [] {
        return false;
    }) && !stop.stop_requested()) {
        const double now = clock_.seconds();
        if (!is_due_(now - checked_at)) continue;
        checked_at = now;
        const auto current = attempt();
        if (const auto failure = current ? current->is_superseded() : std::nullopt)
            leave_(*failure);
    }
}

}  // namespace ringshard::watch
