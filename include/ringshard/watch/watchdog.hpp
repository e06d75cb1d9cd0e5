#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::watch {

// What the thread that trains is at. Steps and batches of an evaluation come again and again, and
// how long they may take follows from how long they took. The preparation of data takes as long as
// it takes; all else has an hour.
enum class Work { step, evaluation, preparation, other };

// Watches, from a thread of its own on every rank, over a job that may not get on. The ranks tell
// some of them, the watchers, about once a second what they are at, in letters outside MPI. When a
// rank has been at something for longer than its limit, or is no longer heard of, a watcher finds
// out who keeps the others waiting and in what, says so in one line, and ends the job with the code
// `peer_lost`; before that every rank writes a file with all it knows of itself.
// A process that was superseded by a newer attempt of the run, while it waited, leaves with that
// code.
class Watchdog {
public:
    // hang_timeout: seconds that a step, or a batch of an evaluation, may take; by default ten
    // times as long as such took so far, and a minute at least. 0: there are no limits at all.
    // Begins with the preparation. From the thread that trains, collective over the world.
    Watchdog(const comm::Group& world, std::optional<double> hang_timeout);
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
    void made_progress();

private:
    class Guard;
    std::unique_ptr<Guard> guard_;
};

}  // namespace ringshard::watch
