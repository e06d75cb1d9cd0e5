#pragma once

#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::plan {

// What a rank computes on.
struct Device {
    std::string name;
    double memory_bytes = 0;  // that tensors may have
    // In a second: of matrix products as they are reached, of attention a share of that, and what
    // utilisation is counted by.
    double bf16_operations = 0;
    double fp32_operations = 0;
    double attention_share = 0;
    double peak_bf16_operations = 0;
    double memory_bytes_per_second = 0;
    double link_bytes_per_second = 0;     // from a rank to others of its node
    double network_bytes_per_second = 0;  // from a rank to other nodes

    bool is_host() const { return name == "cpu"; }
};

// One that is known by name, or a file with the lines `name: ...` and `memory: 80GB`. `cpu` is this
// host, of which `ranks` share the memory.
Expected<Device> find_device(const std::string& name_or_file, int64_t ranks);

}  // namespace ringshard::plan
