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

// The end of this job: SLURM_JOB_END_TIME, then the end that squeue reports, which a thread reads
// again every few minutes because the limit of a running job can change; or max_hours after the
// construction, whichever is earlier.
class Deadline {
public:
    Deadline(const Slurm& slurm, std::optional<double> max_hours);
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    std::optional<double> seconds_left() const;  // nothing: no end is known

private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    void keep_asking(const std::stop_token& stop, const std::string& job);

    Timer clock_;
    std::atomic<double> end_of_job_ = never;  // seconds on clock_
    double end_of_patience_ = never;
    std::jthread asking_;  // last: it uses the others
};

// The seconds in squeue's "1-02:03:04" or "03:04"; nothing for words such as UNLIMITED.
std::optional<double> read_time_left(std::string_view text);

}  // namespace ringshard::job
