#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/exit_code.hpp"

namespace ringshard::checkpoint {

// How a checkpoint comes into being: under a temporary name, and with its own name only when all of
// it is on disk. One rank does this.
class Publication {
public:
    Publication(std::filesystem::path output_dir, int64_t step, int64_t attempt);

    const std::filesystem::path& temporary() const { return temporary_; }

    // Makes the temporary folder and copies the small files into it.
    std::optional<Failure> begin(const std::vector<std::filesystem::path>& files) const;
    // Manifest, name, `latest`. ranges_of_all: the text of every rank's ranges.
    std::optional<Failure> finish(const std::vector<std::string>& ranges_of_all) const;

private:
    std::optional<Failure> check_newest() const;
    std::optional<Failure> make_way() const;

    std::filesystem::path output_dir_;
    int64_t step_;
    int64_t attempt_;
    std::filesystem::path temporary_;
    std::filesystem::path final_;
};

}  // namespace ringshard::checkpoint
