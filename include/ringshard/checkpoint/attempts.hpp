#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

// Every start of a run is an attempt with a number, which a process claims by creating a folder:
// atomic, and independent of clocks. An attempt records the step from which it resumes. So a reader
// can tell which files of an earlier attempt a later one has replaced, and a process that was
// suspended and continues later replaces nothing of a later attempt.
namespace ringshard::checkpoint {

// Returns output_dir/attempt-<n>, the folder for the records of an attempt, its crashes and hangs.
std::filesystem::path attempt_folder(const std::filesystem::path& output_dir, int64_t attempt);

class Attempts {
public:
    // Reads the attempts in the folder; unreadable start records count as absent.
    explicit Attempts(const std::filesystem::path& output_dir);
    // The same, but fails if anything is unreadable. Use for decisions.
    static Expected<Attempts> read(const std::filesystem::path& output_dir);

    int64_t newest() const { return starts_.empty() ? 0 : starts_.rbegin()->first; }
    // By attempt: the step from which it resumed; nothing if it has not recorded one.
    const std::map<int64_t, std::optional<int64_t>>& starts() const { return starts_; }
    // Returns true if a later attempt started before `step`: it has replaced the work of `attempt`
    // at `step`.
    bool is_void(int64_t attempt, int64_t step) const;

private:
    Attempts() = default;
    std::map<int64_t, std::optional<int64_t>> starts_;
};

// An attempt that this process owns. The token distinguishes it from an attempt of the same number
// in a folder that was removed and created again.
struct Claim {
    std::filesystem::path output_dir;
    int64_t attempt;
    std::string token;
};

// Returns 0 if no attempt exists. Fails if the folder cannot be read.
Expected<int64_t> newest_attempt(const std::filesystem::path& output_dir);

// Creates the folder of this attempt, atomically; returns nothing if another process has created
// it.
Expected<std::optional<Claim>> claim_attempt(const std::filesystem::path& output_dir,
                                             int64_t attempt);
// Claims the attempt after `before`. Fails with the code `superseded` if another process has begun
// one meanwhile.
Expected<Claim> claim_next(const Claim& before);
std::optional<Failure> record_start(const std::filesystem::path& output_dir, int64_t attempt,
                                    int64_t step);

// How an attempt ended by itself. For users; no decision depends on it. A killed attempt leaves no
// record.
struct AttemptEnd {
    enum class Kind { complete, rewind, failure } kind = Kind::complete;
    Failure failure{};  // with the exit code; only for Kind::failure
};
std::optional<Failure> record_end(const std::filesystem::path& output_dir, int64_t attempt,
                                  const AttemptEnd& end);
std::optional<AttemptEnd> read_end(const std::filesystem::path& output_dir, int64_t attempt);

// Fails with the code `superseded` if there is a newer attempt, or another run in this folder: a
// run owns the folder as soon as it has created its attempt's. Unreadable files change nothing.
// Costs two file system operations, one open and one stat, however many attempts there are; lists
// output_dir only if these two find a change.
std::optional<Failure> check_newest(const Claim& mine);

// A committed checkpoint.
struct CheckpointEntry {
    std::filesystem::path folder;
    int64_t step;
    int64_t attempt;
    bool has_moments;  // otherwise no run can resume from it
};
// Returns the valid checkpoints, newest first, and names damaged folders in `warnings`. Fails if
// the folder of the run cannot be read.
Expected<std::vector<CheckpointEntry>> valid_checkpoints(const std::filesystem::path& output_dir,
                                                         std::vector<std::string>& warnings);

// The valid checkpoints that stay after a save.
struct Retention {
    std::optional<int64_t> limit;    // maximum number; the newest always stays
    std::set<int64_t> kept_steps{};  // of checkpoints that stay however old they are
};

}  // namespace ringshard::checkpoint
