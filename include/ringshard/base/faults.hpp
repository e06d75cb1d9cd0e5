#pragma once

#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"

namespace ringshard {

// Named points where a test can make the program fail. RINGSHARD_FAULT=step:5:kill kills every rank
// when it begins its fifth step, step:5:kill@2 rank 2 only; throw and segv fail in other ways, stop
// is SIGSTOP, spin an endless loop, read waits for a pipe without a writer, and stall makes
// a file FILE.awaited and waits for FILE, which RINGSHARD_TEST_GO_ON names; delay lasts up to
// RINGSHARD_TEST_DELAY_MS, at random. Where a file is written, the operation can fail instead: eio,
// enospc, or short, where the disk takes half of it and no more. For numbers, flip inverts a bit of
// one, and nan makes one NaN; in `trainer prove` drop, twice, scale, stale, swap and alone spoil
// what a rank sends to a group (prove/faulty_mesh.hpp), and drop loses targets of its loss
// (prove:targets), the ends of its documents (prove:documents), its own rows (prove:rows) or its
// share in the norm of the gradient (prove:norm). Off unless the variable is set. Points: start
// (before data are prepared), load (before weights are), claim (before the attempt is), step,
// compute (before the sums of a step), evaluate, weights (after a step, for flip and nan alone),
// export; and in a save, with files marked *: save:copy (before the copy of the shard), save:begin,
// save:layout*, save:write* (every range), save:flush*, save:written (all of it is on disk),
// save:describe* (the manifest), save:name* (before the rename), save:named, save:latest*.
class Faults {
public:
    Faults() = default;
    static Expected<Faults> read(const Environment& environment, int rank);

    // Call when the program reaches `point`. May not return.
    void reach(std::string_view point);
    // As above, before a write to `file`: returns the failure that the test sets for this write, if
    // any.
    std::optional<Failure> reach(std::string_view point, const std::filesystem::path& file);
    // Returns the corruption of a number that the test sets for `point`.
    enum class Corruption { none, flip, nan, drop, twice, scale, stale, swap, alone };
    Corruption corruption_at(std::string_view point);
    // Returns true if the fault of this rank is at a point that begins so.
    bool aims_at(std::string_view points) const {
        return trigger_ && trigger_->point.starts_with(points);
    }

private:
    static constexpr int64_t every = -1;  // written as *
    struct Trigger {
        std::string point;
        int64_t nth;  // or every
        std::string action;
    };
    bool is_now(std::string_view point);
    void act();

    std::optional<Trigger> trigger_;
    std::filesystem::path go_on_;
    int64_t longest_delay_ = 0;  // ms
    std::minstd_rand random_;
    int64_t times_ = 0;  // a point is reached by one thread at a time
};

}  // namespace ringshard
