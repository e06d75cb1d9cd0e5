#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"

// Is a state file the one that was written?
namespace ringshard::checkpoint {

std::string hash_of(std::span<const std::byte> bytes);  // XXH3-128, as hexadecimal digits

// Do the ranges cover every dataset, each element once, inside the file?
std::optional<Failure> check_coverage(const std::filesystem::path& file, const StateFile& state,
                                      const std::vector<WrittenRange>& ranges);

// Reads ranges first, first + stride, ... : their bytes must have their hash, and be finite
// numbers.
std::optional<Failure> check_content(const std::filesystem::path& file,
                                     const std::vector<WrittenRange>& ranges, int first,
                                     int stride);

}  // namespace ringshard::checkpoint
