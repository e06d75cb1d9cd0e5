#include "ringshard/device/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "cgroup_memory.hpp"
#include "topology.hpp"

namespace ringshard::device {

namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name"))
            return std::string(trim(line.substr(line.find(':') + 1)));
    return "unknown";
}

// The number behind a word at the start of a line: "MemAvailable: 12 kB".
std::optional<int64_t> number_behind(const std::string& file, const std::string& word) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
        std::istringstream words(line);
        std::string first;
        int64_t number = 0;
        if (words >> first >> number && first == word) return number;
    }
    return std::nullopt;
}

}  // namespace

int64_t free_host_memory() {
    constexpr int64_t unit = 1024;
    const int64_t of_host = number_behind("/proc/meminfo", "MemAvailable:").value_or(0) * unit;
    return std::max<int64_t>(0, std::min(of_host, memory_left_in_cgroups().value_or(of_host)));
}

Host describe_host() {
    const Topology topology;
    const Bitmap usable = topology.threads_of_process();

    Host host;
    std::array<char, 256> buffer{};
    gethostname(buffer.data(), buffer.size() - 1);
    host.name = buffer.data();
    host.processor = processor_name();
    host.num_packages = topology.count(HWLOC_OBJ_PACKAGE);
    host.num_numa_nodes = topology.count(HWLOC_OBJ_NUMANODE);
    host.num_cores = topology.count(HWLOC_OBJ_CORE);
    host.num_threads = topology.count(HWLOC_OBJ_PU);
    host.num_usable_threads = std::max(1, hwloc_bitmap_weight(usable.get()));
    host.usable_threads = to_text(usable);
    host.binding = topology.binding(usable);
    host.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    return host;
}

namespace {

// More threads than this only wait for each other, and a slip of the finger can ask for millions.
Expected<int64_t> at_most_what_the_host_bears(int64_t threads, const char* setting,
                                              const Host& host) {
    const int64_t most = 4 * std::max<int64_t>(1, host.num_threads);
    if (threads <= most) return threads;
    return Failure{ExitCode::settings,
                   format_text("{} = {}: {} has {} hardware threads; at most {} are served, and "
                               "leaving it out takes those of this rank",
                               setting, threads, host.name, host.num_threads, most)};
}

}  // namespace

Expected<int64_t> choose_num_threads(std::optional<int64_t> requested,
                                     const Environment& environment, const Host& host,
                                     int64_t ranks_on_host) {
    if (requested) return at_most_what_the_host_bears(*requested, "num_threads", host);
    if (const auto variable = environment.find("OMP_NUM_THREADS")) {
        // "4", or "4,2" for nested levels
        const int64_t threads = read_whole_number(split(*variable, ',').front()).value_or(0);
        if (threads > 0) return at_most_what_the_host_bears(threads, "OMP_NUM_THREADS", host);
    }
    // A scheduler that binds gives every rank cores of its own; one that does not shows all of them
    // to all.
    const bool is_bound = host.num_usable_threads * ranks_on_host <= host.num_threads;
    return std::max<int64_t>(
        1, is_bound ? host.num_usable_threads : host.num_usable_threads / ranks_on_host);
}

}  // namespace ringshard::device
