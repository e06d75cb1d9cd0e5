#pragma once

#include <algorithm>
#include <optional>

#include "ringshard/watch/watchdog.hpp"

namespace ringshard::watch {

// How long work may take, in seconds.
class Limits {
public:
    static constexpr double none = 0;

    explicit Limits(std::optional<double> hang_timeout) : hang_timeout_(hang_timeout) {}

    double of(Work work) const {
        if (hang_timeout_ == none || work == Work::preparation) return none;
        if (work == Work::other) return std::max(hour, hang_timeout_.value_or(0));
        if (hang_timeout_) return *hang_timeout_;
        const double slow = slow_of(work);
        return slow == 0 ? hour : std::max(shortest, longer * slow);
    }
    // For how long a rank may be silent while others wait.
    double of_silence() const { return hang_timeout_.value_or(shortest); }

    void took(Work work, double seconds) {
        if (work != Work::step && work != Work::evaluation) return;
        double& slow = slow_of(work);
        slow = std::max(seconds, 0.9 * slow + 0.1 * seconds);
    }

private:
    static constexpr double hour = 3600;
    static constexpr double shortest = 60;
    static constexpr double longer = 10;

    double& slow_of(Work work) { return work == Work::step ? slow_step_ : slow_batch_; }
    double slow_of(Work work) const { return work == Work::step ? slow_step_ : slow_batch_; }

    std::optional<double> hang_timeout_;
    double slow_step_ = 0;  // what was long ago counts less and less; 0: none has ended yet
    double slow_batch_ = 0;
};

}  // namespace ringshard::watch
