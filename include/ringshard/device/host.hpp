#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/device/binding.hpp"

namespace ringshard::device {

struct Host {
    std::string name;
    std::string processor;
    int64_t num_packages = 0;
    int64_t num_numa_nodes = 0;
    int64_t num_cores = 0;
    int64_t num_threads = 0;         // hardware threads of the host
    int64_t num_usable_threads = 0;  // of those, as many as the scheduler allows this process
    std::string usable_threads;      // "0-3,8-11"
    Binding binding;
    int64_t memory_bytes = 0;
};

Host describe_host();

// Returns the bytes that this process can still allocate: the minimum of what the host has
// available and of what the memory limits of its control groups leave (a job's --mem under SLURM).
int64_t free_host_memory();

// Returns the compute threads of one rank: the setting, else OMP_NUM_THREADS, else its share of the
// cores that it and its neighbours may use.
Expected<int64_t> choose_num_threads(std::optional<int64_t> requested,
                                     const Environment& environment, const Host& host,
                                     int64_t ranks_on_host);

}  // namespace ringshard::device
