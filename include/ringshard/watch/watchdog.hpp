#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::watch {

// The work of the thread that trains. Steps and batches of an evaluation repeat, and their limit
// follows from how long they took before. Preparation of data has no limit; all else has an hour.
enum class Work { step, evaluation, preparation, other };

// Seconds that tests make shorter.
struct Pace {
    double shortest_limit = 600;    // of an automatic limit: a file server may fail over meanwhile
    double other_limit = 3600;      // of loading, saving and all else that is no step or batch
    double between_questions = 30;  // to the file system, about a newer attempt
};

// Watches, from a thread of its own on every rank, for a job that is stalled. Each rank sends a
// heartbeat outside MPI to some ranks, the watchers, about once a second, with the work that it is
// at and how long it has made no progress. If a rank exceeds its limit and no rank makes progress,
// or if other ranks wait for one that is silent, a watcher finds out who waits for whom in which
// operation, prints one line, and ends the job with the code `peer_lost`; before that every rank
// writes a file with its own state.
// Progress is: another step or batch, a block of the model, and, where the work is neither, bytes
// of files read or written. While a step is long, one rank of the job asks whether a newer attempt
// of the run has begun, and the job leaves with the code `superseded` if so.
class Watchdog {
public:
    // hang_timeout: seconds that a step, or a batch of an evaluation, may take without progress. By
    // default ten times as long as its operations took before, and at least pace.shortest_limit. 0:
    // there are no limits. Begins with the preparation. Called by the thread that trains;
    // collective over the world.
    Watchdog(const comm::Group& world, std::optional<double> hang_timeout, const Pace& pace = {});
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // The folder for hang-rank<r>.txt, and a question that fails if a newer attempt has begun.
    struct Attempt {
        std::filesystem::path folder;
        std::function<std::optional<Failure>()> is_superseded;
    };
    void at_attempt(std::optional<Attempt> attempt);

    void at_step(int64_t step);
    // The work that was begun before has ended.
    void begin(Work work);
    // Sets the limit of the step or batch that has begun. operations: of the rank that does most.
    void expect(double operations);
    void made_progress();

private:
    class Guard;
    std::unique_ptr<Guard> guard_;
};

}  // namespace ringshard::watch
