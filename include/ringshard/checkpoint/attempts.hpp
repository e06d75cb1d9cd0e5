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

// output_dir/attempt-<n>: what an attempt says of itself, and the traces of its crashes and hangs.
std::filesystem::path attempt_folder(const std::filesystem::path& output_dir, int64_t attempt);

class Attempts {
public:
    // As the folder stands now, as far as it can be read.
    explicit Attempts(const std::filesystem::path& output_dir);
    // Fails where something that is there cannot be read: on what is left out, nothing may be
    // decided.
    static Expected<Attempts> read(const std::filesystem::path& output_dir);

    int64_t newest() const { return starts_.empty() ? 0 : starts_.rbegin()->first; }
    // By attempt: the step it went on from, if it came so far as to record it.
    const std::map<int64_t, std::optional<int64_t>>& starts() const { return starts_; }
    // Did a later attempt start before this step? Then what `attempt` wrote at `step` is void.
    bool is_void(int64_t attempt, int64_t step) const;

private:
    Attempts() = default;
    std::map<int64_t, std::optional<int64_t>> starts_;
};

// An attempt of this process. The token tells it from one with its number in a folder that was
// removed and made anew.
struct Claim {
    std::filesystem::path output_dir;
    int64_t attempt;
    std::string token;
};

// Returns 0 if no attempt exists. Fails if the folder cannot be read.
Expected<int64_t> newest_attempt(const std::filesystem::path& output_dir);

// Makes the folder of this attempt, which is atomic; nothing where another process has made it.
Expected<std::optional<Claim>> claim_attempt(const std::filesystem::path& output_dir,
                                             int64_t attempt);
// Makes the attempt after that of this process. Fails with the code `superseded` if another process
// has begun one meanwhile.
Expected<Claim> claim_next(const Claim& before);
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

// Fails with the code `superseded` if there is a newer attempt, or another run in the place of this
// one: it owns the folder as soon as it has its attempt's. What cannot be read changes nothing.
// Costs two operations of the file system, one file opened and one looked up, however many attempts
// there are; output_dir is listed only where these two do not find all as it was.
std::optional<Failure> check_newest(const Claim& mine);

// A finished checkpoint.
struct CheckpointEntry {
    std::filesystem::path folder;
    int64_t step;
    int64_t attempt;
    bool has_moments;  // else no run can go on from it
};
// The valid ones, newest first; damaged folders are named in `warnings`. Fails where the run's
// folder cannot be read.
Expected<std::vector<CheckpointEntry>> valid_checkpoints(const std::filesystem::path& output_dir,
                                                         std::vector<std::string>& warnings);

// Which valid checkpoints stay when a new one is there.
struct Retention {
    std::optional<int64_t> limit;        // so many at most, if it can be; the newest stays
    std::optional<int64_t> kept_step{};  // of one that stays however old it is
};

}  // namespace ringshard::checkpoint
