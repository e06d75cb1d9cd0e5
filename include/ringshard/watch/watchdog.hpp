#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::watch {

// The work of the thread that trains. The limit of a step or an evaluation batch follows from how
// long they took before. Preparation of data has no limit; all other work has an hour.
enum class Work { step, evaluation, preparation, other };

// Seconds; tests make them shorter.
struct Pace {
    double shortest_limit = 600;  // of an automatic limit: a file server may fail over meanwhile
    double other_limit = 3600;    // of loading, saving and all else that is no step or batch
    double between_checks = 30;   // of the file system for a newer attempt
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
    // limits. The work is Work::preparation at first. Called by the thread that trains; collective
    // over the world.
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
    // Begins other work, and ends the work before it.
    void begin(Work work);
    // Sets the limit of the current step or batch. operations: of the rank that has most.
    void expect(double operations);
    void made_progress();

private:
    class Monitor;
    std::unique_ptr<Monitor> monitor_;
};

}  // namespace ringshard::watch
