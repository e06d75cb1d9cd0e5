#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::watch {

// Kind of work that the training thread does. The limit of a step or an evaluation batch follows
// from the duration of earlier ones. Preparation of data has no limit; all other work has an hour.
enum class Work { step, evaluation, preparation, other };

// Durations in seconds; tests shorten them.
struct Pace {
    double shortest_limit = 600;  // minimum of an automatic limit: a file server may fail over
    double other_limit = 3600;    // limit of Work::other: loading, saving
    double between_checks = 30;   // pause between checks for a newer attempt in the file system
};

// Watches, from a thread of its own on every rank, for a job that is stalled. Each rank sends a
// heartbeat outside MPI to a few ranks, the watchers, about once a second, with its activity and
// the time since its last progress. If a rank exceeds its limit and no rank makes progress, or if
// other ranks wait for a silent one, a watcher finds which ranks wait for which in which operation,
// prints one line, and ends the job with the code `peer_lost`; before that every rank writes a file
// with its own state. Progress is another step or batch, a block of the model, or, outside steps
// and batches, bytes of files read or written. During a long step one rank of the job checks
// whether a newer attempt of the run has begun, and the job ends with the code `superseded` if so.
class Watchdog {
public:
    // hang_timeout: seconds without progress that a step or an evaluation batch may take. Default:
    // ten times the time that its operations took before, at least pace.shortest_limit. 0: no
    // limits. Starts with Work::preparation. The training thread calls it. Collective over the
    // world.
    Watchdog(const comm::Group& world, std::optional<double> hang_timeout, const Pace& pace = {});
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // The folder for hang-rank<r>.txt, and a check that fails if a newer attempt has begun.
    struct Attempt {
        std::filesystem::path folder;
        std::function<std::optional<Failure>()> is_superseded;
    };
    void at_attempt(std::optional<Attempt> attempt);

    void at_step(int64_t step);
    // Ends the current work and begins another.
    void begin(Work work);
    // Sets the limit of the current step or batch. operations: the maximum over all ranks.
    void expect(double operations);
    void made_progress();

private:
    class Monitor;
    std::unique_ptr<Monitor> monitor_;
};

}  // namespace ringshard::watch
