#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

// Every start of a run is an attempt with a number, claimed by making a folder: atomic, and without
// clocks. It records the step from which it goes on. So what an attempt wrote that a later one did
// not build on can be told: a process that was cut off and woke up again does no harm.
namespace ringshard::checkpoint {

class Attempts {
public:
    explicit Attempts(const std::filesystem::path& output_dir);  // as the folder stands now

    int64_t newest() const { return starts_.empty() ? 0 : starts_.rbegin()->first; }
    // By attempt: the step it went on from, if it came so far as to record it.
    const std::map<int64_t, std::optional<int64_t>>& starts() const { return starts_; }
    // Did a later attempt start before this step? Then what `attempt` wrote at `step` is void.
    bool is_void(int64_t attempt, int64_t step) const;

private:
    std::map<int64_t, std::optional<int64_t>> starts_;
};

// Makes the next attempt folder; its number.
Expected<int64_t> claim_attempt(const std::filesystem::path& output_dir);
std::optional<Failure> record_start(const std::filesystem::path& output_dir, int64_t attempt,
                                    int64_t step);

// How an attempt ended, where it ended by itself: for people, nothing depends on it. One that was
// killed leaves none.
struct AttemptEnd {
    enum class Kind { complete, rewind, failure } kind = Kind::complete;
    Failure failure{};  // with the code of the process; for `failure` alone
};
std::optional<Failure> record_end(const std::filesystem::path& output_dir, int64_t attempt,
                                  const AttemptEnd& end);
std::optional<AttemptEnd> read_end(const std::filesystem::path& output_dir, int64_t attempt);

// Fails with the code `superseded` if there is a newer attempt: it owns the run as soon as it has
// its folder.
std::optional<Failure> check_newest(const std::filesystem::path& output_dir, int64_t attempt);

// A finished checkpoint.
struct CheckpointEntry {
    std::filesystem::path folder;
    int64_t step;
    int64_t attempt;
    bool has_moments;  // else no run can go on from it
};
// The valid ones, newest first; damaged folders are named in `warnings`.
std::vector<CheckpointEntry> valid_checkpoints(const std::filesystem::path& output_dir,
                                               std::vector<std::string>& warnings);

// Which valid checkpoints stay when a new one is there.
struct Retention {
    std::optional<int64_t> limit;        // so many at most, if it can be; the newest stays
    std::optional<int64_t> kept_step{};  // of one that stays however old it is
};

}  // namespace ringshard::checkpoint
