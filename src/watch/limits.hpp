#pragma once

#include <algorithm>
#include <optional>

#include "ringshard/watch/watchdog.hpp"

namespace ringshard::watch {

// Computes the seconds that a rank may spend on its work without progress.
class Limits {
public:
    static constexpr double none = 0;

    Limits(std::optional<double> hang_timeout, const Pace& pace)
        : hang_timeout_(hang_timeout), shortest_(pace.shortest_limit), other_(pace.other_limit) {}

    // operations: of this step or batch, the maximum over ranks; 0 if not counted yet.
    double of(Work work, double operations = 0) const {
        if (hang_timeout_ == none || work == Work::preparation) return none;
        if (work == Work::other) return std::max(other_, hang_timeout_.value_or(0));
        if (hang_timeout_) return *hang_timeout_;
        const Past& past = past_of(work);
        if (past.slowest == 0) return std::max(hour, shortest_);
        // Time grows with the operations of a row, except for work without operations: reading
        // offloaded state takes as long as before.
        const double expected = std::max(past.slowest, past.seconds_per_operation() * operations);
        return std::max(shortest_, longer * expected);
    }
    // Returns the seconds that a rank may be silent while others wait for it.
    double of_silence() const { return hang_timeout_.value_or(silence); }

    void took(Work work, double seconds, double operations) {
        if (work != Work::step && work != Work::evaluation) return;
        Past& past = past_of(work);
        past.slowest = std::max(seconds, kept * past.slowest + (1 - kept) * seconds);
        past.seconds = kept * past.seconds + seconds;
        past.operations = kept * past.operations + operations;
    }

private:
    static constexpr double hour = 3600;
    static constexpr double silence = 60;
    static constexpr double longer = 10;
    static constexpr double kept = 0.9;  // weight of the past, which decays with every step

    struct Past {
        double slowest = 0;  // 0: no work of this kind has ended yet
        double seconds = 0;
        double operations = 0;
        double seconds_per_operation() const { return operations > 0 ? seconds / operations : 0; }
    };
    Past& past_of(Work work) { return work == Work::step ? steps_ : batches_; }
    const Past& past_of(Work work) const { return work == Work::step ? steps_ : batches_; }

    std::optional<double> hang_timeout_;
    double shortest_;
    double other_;
    Past steps_;
    Past batches_;
};

}  // namespace ringshard::watch
