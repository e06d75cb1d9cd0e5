#pragma once

#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::plan {

// What a rank computes on, and what it reaches in a second while all ranks work: floating-point
// operations and bytes.
struct Device {
    std::string name;
    double memory_bytes = 0;  // that tensors may have
    bool is_host = false;
    struct Rates {
        double products = 0;  // with weights
        double attention = 0;
        double row_bytes = 0;  // read and written where memory is the limit
        double peak = 0;       // what utilisation is counted by
    };
    Rates bf16{};
    Rates fp32{};
    double loss_logits = 0;  // tokens times vocabulary, and their gradients
    double optimizer_bytes = 0;
    double scratch_bytes = 0;  // to and from where it is kept outside its memory
    double link_bytes = 0;     // from a rank to others of its node
    double network_bytes = 0;  // from a rank to other nodes
};

// One that is known by name, or a file that `trainer doctor --measure` wrote. `cpu` is this host as
// it is measured now, by one rank of `ranks` that share its memory.
Expected<Device> find_device(const std::string& name_or_file, int64_t ranks);

// The device with other ways between ranks: "nvlink+ib400" names the one inside a node and the one
// between nodes, the latter for each rank.
Expected<Device> with_interconnect(Device device, const std::string& names);

// This rank's part of the host, by the program's own kernels; a second or so. Collective over the
// communicator, with `ranks` of them on a host.
Device measure_host(comm::Communicator& all, int64_t ranks);

// The mean of what all ranks measured.
Device mean_of_all(const Device& device, const comm::Group& world);

// The file that find_device() reads.
std::string to_text(const Device& device);

}  // namespace ringshard::plan
