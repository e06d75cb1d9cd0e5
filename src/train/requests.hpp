#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/timer.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/job/deadline.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// Requests from outside to a running job: a signal (SIGTERM, SIGINT or SIGUSR1, to any rank), a
// time limit that comes near, a newer attempt that has taken the run over, or the files stop-now
// and save-now in output_dir. Each rank's findings are added up in a reduction that a step makes
// anyway, so all ranks act after the same step and nothing extra is sent.
class Requests {
public:
    // Takes over the signals that end a process, and takes away the marker of an earlier end.
    // `saving`: seconds that a save will take, as far as anyone can know before the first.
    Requests(checkpoint::Claim claim, const job::Deadline& deadline, double saving,
             const comm::Group& world);

    // Returns the requests that this rank finds. save-now is gone afterwards; stop-now stays as a
    // marker, renamed to stopped, for the batch script.
    ControlFlags look();

    struct Answer {
        bool wants_save = false;
        std::string stop_by;  // the request that ends the run; empty: none
        bool is_superseded = false;
    };
    // Reads the sums over all ranks.
    static Answer read(const ControlFlags& sum);

    // Makes again the files that a step consumed which is undone by a rewind.
    void restore_files(const ControlFlags& sum) const;

    // So that the last step and the last save still fit into the time that is left: how long a
    // save took until it was durable, and how long training stood still for it.
    void record_save(double seconds);
    void record_stall(double seconds) { saved_since_ += seconds; }

private:
    bool is_time_up();
    bool is_superseded();

    checkpoint::Claim claim_;
    const job::Deadline& deadline_;
    bool looks_at_files_;
    Timer clock_;
    double looked_at_ = 0;
    double saved_since_ = 0;              // seconds that steps waited for saves since then
    double step_seconds_ = 0;             // slow ones are forgotten slowly
    double expected_save_;                // seconds
    std::optional<double> save_seconds_;  // after the first one
    double asked_for_owner_at_ = 0;
};

}  // namespace ringshard::train
