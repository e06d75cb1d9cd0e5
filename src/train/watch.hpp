#pragma once

#include <atomic>
#include <filesystem>
#include <thread>

#include "ringshard/base/timer.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::train {

// Looks, from a thread of its own, for what a rank that waits for others cannot see. Where nothing
// gets done for some time:
// - a newer attempt, which the batch system has started elsewhere while this rank was cut off from
//   the others: the process ends there and then, with the code `superseded`;
// - a peer that is lost or hangs, without a word: the job ends with the code `peer_lost`, once a
//   step has taken twenty times as long as steps do (and two minutes), anything else an hour.
class Watch {
public:
    // Collective over the world.
    Watch(std::filesystem::path output_dir, int64_t attempt, const comm::Group& world);

    void begin_step();
    void end_step();
    void made_progress() { progress_at_ = clock_.seconds(); }

private:
    void watch(const std::stop_token& stop, const std::filesystem::path& output_dir,
               int64_t attempt, bool speaks);
    void leave_if_superseded(const std::filesystem::path& output_dir, int64_t attempt,
                             bool speaks) const;

    static constexpr double hour = 3600;

    Timer clock_;
    double step_seconds_ = 0;  // slow ones are forgotten slowly; 0: no step has ended yet
    std::atomic<double> progress_at_ = 0;
    std::atomic<double> limit_ = hour;  // seconds without progress
    std::jthread watching_;             // last: it uses the others
};

}  // namespace ringshard::train
