#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::plan {

// The device of a rank, and its rates while all ranks work: floating-point operations or bytes per
// second.
struct Device {
    std::string name;
    double memory_bytes = 0;  // available to tensors
    bool is_host = false;
    struct Rates {
        double products = 0;  // of the forward pass, with weights
        double products_backward = 0;
        double attention = 0;
        double attention_backward = 0;  // counts as 2.5 forward passes
        // The fixed cost of a query, as a number of keys: the masked part of the blocks on the
        // diagonal, and the row itself. It dominates in short documents.
        double attention_extra_keys = 0;
        double attention_backward_extra_keys = 0;
        double row_bytes = 0;  // of kernels that are bound by memory
        double peak = 0;       // the 100% of utilisation
    };
    Rates bf16{};
    Rates fp32{};
    // Products in FP8 as a multiple of those in bf16; 0 if the device has none. On the host they
    // are products of rounded numbers in bf16.
    double fp8_products = 1;
    // Of the rate of attention, where many documents share a call.
    double packed_attention_share = 1;
    // The rates are those of wide products, long tiles and heads of 128. A product whose smaller
    // side is as wide as this, and a tile of as many tokens in a call of its own, reach half of
    // them; heads of 64 elements and less reach a share.
    double products_half_width = 0;
    double attention_half_length = 0;
    double narrow_heads_share = 1;
    double loss_logits = 0;  // logits per second, with their gradients
    double optimizer_bytes = 0;
    double host_copy_bytes = 0;  // into the memory of the host
    double scratch_bytes = 0;    // to and from offload files
    double link_bytes = 0;       // from a rank to others of its node
    double network_bytes = 0;    // from a rank to other nodes
    // For a node: bytes of a checkpoint that its ranks together write per second while other nodes
    // write; its memory; its free space for offload files.
    double save_bytes = 0;
    double host_memory = std::numeric_limits<double>::infinity();
    double scratch_room = std::numeric_limits<double>::infinity();
};

// Returns a device by its name, or from a file that `trainer doctor --measure` wrote. `cpu`:
// measures this host, as one rank of `ranks` that share its memory.
Expected<Device> find_device(const std::string& name_or_file, int64_t ranks);

// Returns the device with other interconnects: "nvlink+ib400" names the one inside a node and the
// one of each rank between nodes.
Expected<Device> with_interconnect(Device device, const std::string& names);

// Measures this rank's share of the host with the program's own kernels, in about a second.
// Collective over the communicator, which has `ranks` ranks on a host.
Device measure_host(comm::Communicator& all, int64_t ranks);

// Returns the bytes per second at which this rank writes and reads an offload file in a folder.
Expected<double> measure_scratch(const std::filesystem::path& folder);

// Returns the mean of the measurements of all ranks. Collective over the world.
Device mean_of_all(const Device& device, const comm::Group& world);

// The file that find_device() reads.
std::string to_text(const Device& device);

}  // namespace ringshard::plan
