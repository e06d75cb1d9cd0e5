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

// Commits a checkpoint: rank 0 writes it under a temporary name, and renames it once all of it is
// on disk.
class Commit {
public:
    Commit(Claim claim, int64_t step);

    const std::filesystem::path& temporary() const { return temporary_; }

    // Creates the temporary folder with its small files, content by name, whose hashes the manifest
    // then has.
    std::optional<Failure> begin(const std::map<std::string, std::string>& files);
    // Writes the manifest, renames the folder and updates `latest`. ranges: of all ranks. An error
    // after the rename becomes a warning.
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
    std::map<std::string, std::string> hashes_;  // of the small files
};

// Removes unfinished checkpoints of earlier attempts.
void remove_leftovers(const std::filesystem::path& output_dir, int64_t attempt);

// Renames the checkpoints of later steps, which become void when an attempt starts at `step`, so
// that no other program takes them for this run's; `latest` names the one from which the attempt
// starts.
std::optional<Failure> move_later_aside(const std::filesystem::path& output_dir, int64_t step);

// Removes the oldest checkpoints until `limit` remain; never those of a newer attempt.
std::optional<Failure> keep_newest(const Claim& claim, const Retention& retention);

}  // namespace ringshard::checkpoint
