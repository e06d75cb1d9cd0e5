#include "cgroup_memory.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/text.hpp"

namespace ringshard::device {

namespace {

namespace fs = std::filesystem;

// Names of the files that describe one group. All numbers include the group's descendants.
struct Interface {
    std::vector<const char*> limits;
    const char* used;
    std::array<const char*, 2> page_cache;  // entries of memory.stat
};
// Above memory.high the kernel does not kill, but it slows the group down until it is useless.
const Interface v2{
    {"memory.max", "memory.high"}, "memory.current", {"active_file", "inactive_file"}};
const Interface v1{{"memory.limit_in_bytes"},
                   "memory.usage_in_bytes",
                   {"total_active_file", "total_inactive_file"}};

// A mounted hierarchy that may limit memory.
struct Hierarchy {
    const Interface* interface;
    fs::path mount_point;
    fs::path mounted_part;  // folder of the hierarchy that is visible at the mount point
};

// mountinfo writes a space in a path as \040.
std::string unescape(std::string_view text) {
    std::string plain;
    for (size_t at = 0; at < text.size(); ++at) {
        const bool is_escape = text[at] == '\\' && at + 3 < text.size();
        plain += is_escape
                     ? static_cast<char>(std::stoi(std::string(text.substr(at + 1, 3)), nullptr, 8))
                     : text[at];
        if (is_escape) at += 3;
    }
    return plain;
}

bool names_memory(const std::string& controllers) {
    const std::vector<std::string> names = split(controllers, ',');
    return std::ranges::find(names, "memory") != names.end();
}

// A line of mountinfo: id, parent, device, mounted part, mount point, options, optional fields, -,
// type of the file system, source, options of the file system.
std::optional<Hierarchy> read_mount(const std::string& line) {
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos) return std::nullopt;
    const std::vector<std::string> mount = split(line.substr(0, separator), ' ');
    const std::vector<std::string> system = split(line.substr(separator + 3), ' ');
    if (mount.size() < 5 || system.empty()) return std::nullopt;
    Hierarchy found{nullptr, unescape(mount[4]), unescape(mount[3])};
    if (system[0] == "cgroup2") found.interface = &v2;
    if (system[0] == "cgroup" && names_memory(system.back())) found.interface = &v1;
    return found.interface != nullptr ? std::optional(found) : std::nullopt;
}

// Returns the group of this process in the hierarchy, from a line of /proc/self/cgroup:
// "4:memory:/slurm/job_7", or "0::/slurm/job_7" in v2.
std::optional<fs::path> read_group(const std::string& line, const Interface& interface) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) return std::nullopt;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_meant = &interface == &v2 ? controllers.empty() : names_memory(controllers);
    return is_meant ? std::optional<fs::path>(line.substr(second + 1)) : std::nullopt;
}

std::vector<std::string> lines_of(const fs::path& file) {
    std::vector<std::string> lines;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
    return lines;
}

// Returns the number in a file; empty for "max", and for the v1 limit that means none.
std::optional<int64_t> read_limit(const fs::path& file) {
    constexpr int64_t no_limit = int64_t{1} << 62;
    std::ifstream stream(file);
    int64_t number = 0;
    return stream >> number && number < no_limit ? std::optional(number) : std::nullopt;
}

// The kernel evicts the page cache of a group before it enforces the limit. Shared memory is not
// part of these entries: without swap it cannot be evicted.
int64_t evictable_bytes(const fs::path& group, const Interface& interface) {
    int64_t bytes = 0;
    for (const std::string& line : lines_of(group / "memory.stat")) {
        std::istringstream words(line);
        std::string name;
        int64_t number = 0;
        if (words >> name >> number &&
            std::ranges::find(interface.page_cache, name) != interface.page_cache.end())
            bytes += number;
    }
    return bytes;
}

std::optional<int64_t> smaller(std::optional<int64_t> a, std::optional<int64_t> b) {
    return a && b ? std::min(*a, *b) : (a ? a : b);
}

std::optional<int64_t> memory_left_in(const fs::path& group, const Interface& interface) {
    std::optional<int64_t> limit;
    for (const char* const name : interface.limits)
        limit = smaller(limit, read_limit(group / name));
    const auto used = read_limit(group / interface.used);
    if (!limit || !used) return std::nullopt;
    return *limit - *used + evictable_bytes(group, interface);
}

// In v1 a parent limits its children only if it counts their memory.
bool limits_children(const fs::path& group) {
    return read_limit(group / "memory.use_hierarchy").value_or(1) != 0;
}

// The folder of a group. In a container without a cgroup namespace of its own, /proc names groups
// from the root of the host, and the mount shows a part of them.
fs::path folder_of(const Hierarchy& hierarchy, const fs::path& group, const fs::path& root) {
    const fs::path inside = group.lexically_relative(hierarchy.mounted_part);
    const bool is_visible = !inside.empty() && *inside.begin() != "..";
    const fs::path mount_point = root / hierarchy.mount_point.relative_path();
    return is_visible && inside != "." ? mount_point / inside : mount_point;
}

// Returns the least free memory of a group and its ancestors up to the mount point.
std::optional<int64_t> least_left(const Hierarchy& hierarchy, const fs::path& group,
                                  const fs::path& root) {
    const fs::path top = root / hierarchy.mount_point.relative_path();
    std::optional<int64_t> least;
    for (fs::path at = folder_of(hierarchy, group, root);; at = at.parent_path()) {
        least = smaller(least, memory_left_in(at, *hierarchy.interface));
        if (at == top || !limits_children(at.parent_path())) return least;
    }
}

}  // namespace

std::optional<int64_t> memory_left_in_cgroups(const fs::path& root) {
    const std::vector<std::string> groups = lines_of(root / "proc/self/cgroup");
    std::optional<int64_t> least;
    for (const std::string& mount : lines_of(root / "proc/self/mountinfo")) {
        const auto hierarchy = read_mount(mount);
        if (!hierarchy) continue;
        for (const std::string& line : groups)
            if (const auto group = read_group(line, *hierarchy->interface))
                least = smaller(least, least_left(*hierarchy, *group, root));
    }
    return least;
}

}  // namespace ringshard::device
