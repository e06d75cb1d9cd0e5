#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ringshard::data {

struct FoundFiles {
    std::vector<std::filesystem::path> files;    // regular files, sorted by path
    std::vector<std::filesystem::path> skipped;  // unreadable folders
};

// Finds files below a folder whose paths match a pattern: parts with *, ? and [], and ** for any
// number of folders. Lists a folder only if the pattern leads into it and has a wildcard there.
FoundFiles find_matching(const std::filesystem::path& folder, const std::filesystem::path& pattern);

// Returns true if a path has a wildcard.
bool is_pattern(const std::string& path);

}  // namespace ringshard::data
