#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::plan {

// The device of a rank, and its rates while all ranks work: floating-point operations and bytes.
struct Device {
    std::string name;
    double memory_bytes = 0;  // that tensors may have
    bool is_host = false;
    struct Rates {
        double products = 0;  // with weights, forward; the next is backward, and so below
        double products_backward = 0;
        double attention = 0;
        double attention_backward = 0;  // which counts as 2.5 forward passes
        // The cost of a query beside the keys it sees, in keys: the blocks on the diagonal, and the
        // row itself. It is much where documents are short.
        double attention_extra_keys = 0;
        double attention_backward_extra_keys = 0;
        double row_bytes = 0;  // read and written where memory is the limit
        double peak = 0;       // what utilisation is counted by
    };
    Rates bf16{};
    Rates fp32{};
    double loss_logits = 0;  // tokens times vocabulary, and their gradients
    double optimizer_bytes = 0;
    double host_copy_bytes = 0;  // into the memory of the host
    double scratch_bytes = 0;    // to and from where it is kept outside its memory
    double link_bytes = 0;       // from a rank to others of its node
    double network_bytes = 0;    // from a rank to other nodes
    // Of a node. What its ranks write of a checkpoint in a second, all together and while others
    // write; its memory; the room for what they keep in files.
    double save_bytes = 0;
    double host_memory = std::numeric_limits<double>::infinity();
    double scratch_room = std::numeric_limits<double>::infinity();
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

// Returns the rate of this rank with a file of its own in a folder: bytes a second, written and
// read as what is kept outside memory is.
Expected<double> measure_scratch(const std::filesystem::path& folder);

// Returns the mean of the measurements of all ranks. Collective over the world.
Device mean_of_all(const Device& device, const comm::Group& world);

// The file that find_device() reads.
std::string to_text(const Device& device);

}  // namespace ringshard::plan
