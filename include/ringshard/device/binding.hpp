#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringshard::device {

// Where the scheduler lets this process run. Cores and NUMA nodes are counted from 0 on the host,
// as hwloc does, and written as "0-3,8".
struct Binding {
    std::string cores{};
    std::string allowed_cores{};  // that control groups leave to the job on this host
    int64_t num_numa_nodes = 0;   // of the host
    std::string numa_nodes{};     // of its cores
};

// Returns which ranks of a host have no core of their own though others run no rank; empty where
// every rank has one, or where there are too few. The bindings are those of all ranks of the host.
std::string describe_shared_cores(const std::vector<Binding>& ranks);

// Makes memory that this thread and those that it starts allocate lie near their cores, as far as
// there is any: where the cores are of one NUMA node and nobody has chosen otherwise (numactl).
// Returns what is in force, for people. `binding`: of this process.
std::string bind_memory(const Binding& binding);

}  // namespace ringshard::device
