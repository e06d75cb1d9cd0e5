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

// Is a state file the one that was written?
namespace ringshard::checkpoint {

// XXH3-128 of bytes that come one after the other.
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

// No NaN and no infinity among them?
bool are_finite(std::span<const std::byte> bytes, ElementType type);

// Do the ranges cover every dataset, each element once, where `file` has it and inside the files?
std::optional<Failure> check_coverage(const std::filesystem::path& file, const StateFile& state,
                                      const Manifest& manifest);

// The hash of what lies between the ranges of a file: HDF5's own bytes.
Expected<std::string> metadata_hash(const std::filesystem::path& file,
                                    const std::vector<WrittenRange>& ranges);
std::optional<Failure> check_metadata_hashes(const std::filesystem::path& folder,
                                             const Manifest& manifest);

// Reads the ranges: their bytes must have their hash, and be finite numbers. Counts the
// bytes that it has read.
std::optional<Failure> check_content(const std::filesystem::path& folder, const StateFile& state,
                                     const std::vector<WrittenRange>& ranges, ByteCounter& read);

}  // namespace ringshard::checkpoint
