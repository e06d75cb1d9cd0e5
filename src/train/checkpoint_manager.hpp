#pragma once

#include <functional>

#include "log.hpp"
#include "requests.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/checkpoint/saver.hpp"
#include "ringshard/config/checkpoint_settings.hpp"

namespace ringshard::train {

// Starts the saves of a run and reports their results. A save is written beside the training; one
// that fails is reported and counted, and training continues until too many have failed in a row.
// Every function that returns a failure is collective over the world.
class CheckpointManager {
public:
    struct Parts {
        const config::CheckpointSettings& settings;
        const comm::Group& world;
        checkpoint::Saver& saver;
        const shard::Zero& zero;
        optim::Optimizer& optimizer;
        std::function<int64_t()> free_host_memory;  // bytes
    };
    CheckpointManager(Parts parts, Log& log, Requests& requests);

    // Waits for a save that is under way, copies the state and starts to write it. Where the copy
    // does not fit into the host's memory, all of it is done here. `stall` counts from where
    // training stopped for this save.
    std::optional<comm::AgreedFailure> start(const Timer& stall,
                                             const checkpoint::Progress& progress,
                                             checkpoint::Contents contents,
                                             const checkpoint::Extras& extras);

    // Returns 1 if a save has finished on this rank; the step sums it over the world.
    double finished_flag() const { return parts_.saver.is_done() ? 1 : 0; }
    // Takes that sum, and reports a save that has finished on all ranks.
    std::optional<comm::AgreedFailure> report_finished(double done_on_ranks, int64_t step);
    // Waits for a save under way and reports its result.
    std::optional<comm::AgreedFailure> wait(int64_t step);

    bool has_failed() const { return failed_in_a_row_ > 0; }
    int64_t bytes_set_aside() const { return parts_.saver.bytes_set_aside(); }

private:
    std::optional<comm::AgreedFailure> wait_for_previous(int64_t step);
    bool copy_fits(checkpoint::Contents contents);
    std::optional<comm::AgreedFailure> report(const checkpoint::SaveOutcome& outcome, int64_t step);

    Parts parts_;
    comm::Group neighbours_;
    Log& log_;
    Requests& requests_;
    double stall_ = 0;  // seconds of the save under way
    int64_t failed_in_a_row_ = 0;
};

// Before one has been measured: masters and moments, at a speed that most file systems reach from a
// host. Collective over the world.
double expected_save_seconds(const shard::Zero& zero, const comm::Group& world);

}  // namespace ringshard::train
