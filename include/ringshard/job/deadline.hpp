#pragma once

#include <atomic>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/job/slurm.hpp"

namespace ringshard::job {

// Knows the end of this job, whichever comes first: the end that SLURM gives, or max_hours after
// construction. SLURM gives it in SLURM_JOB_END_TIME and then through squeue, which a thread calls
// every few minutes because the limit of a running job can change.
class Deadline {
public:
    Deadline(const Slurm& slurm, std::optional<double> max_hours);
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    std::optional<double> seconds_left() const;  // nothing if no end is known

private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    void keep_asking(const std::stop_token& stop, const std::string& job);

    Timer clock_;
    std::atomic<double> end_of_job_ = never;  // seconds on clock_
    double end_of_patience_ = never;
    std::jthread asking_;  // last, since it uses the other members
};

// Returns the seconds in squeue's "1-02:03:04" or "03:04"; nothing for words such as UNLIMITED.
std::optional<double> read_time_left(std::string_view text);

}  // namespace ringshard::job
