#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::checkpoint {

// Commits a checkpoint: it is written under a temporary name, and renamed when all of it is on
// disk. Used by one rank.
class Commit {
public:
    Commit(Claim claim, int64_t step);

    const std::filesystem::path& temporary() const { return temporary_; }

    // Makes the temporary folder with the small files in it, content by name.
    std::optional<Failure> begin(const std::map<std::string, std::string>& files) const;
    // Writes the manifest, renames the folder and updates `latest`. ranges: of every rank. An error
    // after the rename is a warning.
    std::optional<Failure> finish(std::vector<WrittenRange> ranges, bool has_moments,
                                  Faults& faults, std::vector<std::string>& warnings) const;
    // Removes the temporary folder.
    void abandon() const;

private:
    std::optional<Failure> describe(std::vector<WrittenRange> ranges, bool has_moments,
                                    Faults& faults) const;
    std::optional<Failure> rename_to_final(Faults& faults) const;

    Claim claim_;
    int64_t step_;
    std::filesystem::path temporary_;
    std::filesystem::path final_;
};

// Removes unfinished checkpoints of earlier attempts.
void remove_leftovers(const std::filesystem::path& output_dir, int64_t attempt);

// Renames the checkpoints of later steps, which an attempt that starts at `step` makes void, so
// that no other program takes one for this run's; `latest` names the one that the attempt starts
// from.
std::optional<Failure> move_later_aside(const std::filesystem::path& output_dir, int64_t step);

// Removes the oldest checkpoints until `limit` are left; never a newer attempt's.
std::optional<Failure> keep_newest(const Claim& claim, const Retention& retention);

}  // namespace ringshard::checkpoint
