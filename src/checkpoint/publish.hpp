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

// How a checkpoint comes into being: under a temporary name, and with its own name only when all of
// it is on disk. One rank does this.
class Publication {
public:
    Publication(Claim claim, int64_t step);

    const std::filesystem::path& temporary() const { return temporary_; }

    // Makes the temporary folder with the small files in it, content by name.
    std::optional<Failure> begin(const std::map<std::string, std::string>& files) const;
    // Manifest, name, `latest`. ranges: of every rank. What went wrong once the checkpoint was
    // there is a warning.
    std::optional<Failure> finish(std::vector<WrittenRange> ranges, bool has_moments,
                                  Faults& faults, std::vector<std::string>& warnings) const;
    // Takes away what was not finished.
    void abandon() const;

private:
    std::optional<Failure> describe(std::vector<WrittenRange> ranges, bool has_moments,
                                    Faults& faults) const;
    std::optional<Failure> give_name(Faults& faults) const;

    Claim claim_;
    int64_t step_;
    std::filesystem::path temporary_;
    std::filesystem::path final_;
};

// Takes away what attempts before this one did not finish.
void remove_leftovers(const std::filesystem::path& output_dir, int64_t attempt);

// Renames the checkpoints of later steps, which an attempt that starts at `step` makes void, so
// that no other program takes one for this run's; `latest` names the one that the attempt starts
// from.
std::optional<Failure> set_later_ones_aside(const std::filesystem::path& output_dir, int64_t step);

// Takes away the oldest ones until `limit` are left; never a newer attempt's.
std::optional<Failure> keep_newest(const Claim& claim, const Retention& retention);

}  // namespace ringshard::checkpoint
