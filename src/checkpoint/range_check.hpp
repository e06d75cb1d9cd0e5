#pragma once

#include <xxhash.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"

// Checks whether a state file is the one that was written.
namespace ringshard::checkpoint {

// Computes the XXH3-128 hash of consecutive bytes.
class Hash {
public:
    Hash();
    void add(std::span<const std::byte> bytes);
    std::string digits() const;  // hexadecimal

private:
    struct Free {
        void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, Free> state_;
};

// Returns true if there is no NaN and no infinity.
bool are_finite(std::span<const std::byte> bytes, ElementType type);

// Fails unless the ranges cover every dataset, each element once, at the offsets of `file` and
// inside the files.
std::optional<Failure> check_coverage(const std::filesystem::path& file, const StateFile& state,
                                      const Manifest& manifest);

// Returns the hash of the bytes outside the ranges of a file: HDF5's metadata.
Expected<std::string> metadata_hash(const std::filesystem::path& file,
                                    const std::vector<WrittenRange>& ranges);
std::optional<Failure> check_metadata_hashes(const std::filesystem::path& folder,
                                             const Manifest& manifest);
// Fails unless the other files have their hashes.
std::optional<Failure> check_file_hashes(const std::filesystem::path& folder,
                                         const Manifest& manifest);

// Reads the ranges; fails if their bytes do not have their hash, or are not finite. Adds the bytes
// to `read`.
std::optional<Failure> check_content(const std::filesystem::path& folder, const StateFile& state,
                                     const std::vector<WrittenRange>& ranges, ByteCounter& read);

}  // namespace ringshard::checkpoint
