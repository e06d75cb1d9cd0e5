#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ringshard::data {

struct FoundFiles {
    std::vector<std::filesystem::path> files;    // regular ones, in the order of their paths
    std::vector<std::filesystem::path> skipped;  // folders that cannot be read
};

// Files below a folder whose paths a pattern matches: parts with *, ? and [], and ** for any number
// of folders. Lists a folder only where the pattern leads into it and has a wildcard there.
FoundFiles find_matching(const std::filesystem::path& folder, const std::filesystem::path& pattern);

// Whether a path has a wildcard.
bool is_pattern(const std::string& path);

}  // namespace ringshard::data
