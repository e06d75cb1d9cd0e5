#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringshard::device {

// The cores and memory that the scheduler gives this process. Cores and NUMA nodes are counted from
// 0 on the host, as hwloc does, and written as "0-3,8".
struct Binding {
    std::string cores{};
    std::string allowed_cores{};  // that control groups leave to the job on this host
    int64_t num_numa_nodes = 0;   // of the host
    std::string numa_nodes{};     // of its cores
};

// Returns the ranks of a host that share a core although other cores run no rank; empty if every
// rank has a core of its own, or if there are too few. The bindings are those of all ranks of the
// host.
std::string describe_shared_cores(const std::vector<Binding>& ranks);

// Binds the memory of this thread and of those that it starts to the NUMA node of their cores, if
// all cores are in one node and no policy is set (numactl). Returns the policy in force, for
// people. `binding`: of this process.
std::string bind_memory(const Binding& binding);

}  // namespace ringshard::device
