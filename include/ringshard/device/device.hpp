#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::device {

struct Gpu {
    int index = 0;  // among those that this process can see
    std::string name;
    std::string bus_id;  // the same for every process that sees this GPU, unlike its index
    int64_t memory_bytes = 0;
    std::string capability;  // "9.0"
};

// Built with CUDA or not: which of two files answers is chosen when the program is built.
bool is_built_with_cuda();
std::string describe_gpu_libraries();  // versions, when built and now
std::vector<Gpu> visible_gpus();
void make_current(c10::Device device);  // for this thread

// The device of a rank that is the `local_rank`th on its host. Whether a scheduler shows every rank
// all GPUs of the host or each its own, the choice is the same.
Expected<c10::Device> choose_device(config::DeviceChoice choice, int64_t local_rank,
                                    const std::vector<Gpu>& visible);

// Two ranks on one GPU get in each other's way, and NCCL refuses them: `places` is host and bus id
// of every rank, empty for a rank on the CPU.
std::optional<Failure> check_distinct(const std::vector<std::string>& places);

}  // namespace ringshard::device
