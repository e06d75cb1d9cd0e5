#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ringshard::device {

// Returns the bytes that this process can still allocate within the memory limits of its control
// groups: the minimum over its group and all ancestors, of cgroup v1 and v2. Empty if no group has
// a limit. /proc and the cgroup file systems are looked up below `root`.
std::optional<int64_t> memory_left_in_cgroups(const std::filesystem::path& root = "/");

}  // namespace ringshard::device
