#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/config/run_settings.hpp"

namespace ringshard::device {

struct Gpu {
    int index = 0;  // among those that this process can see
    std::string name;
    std::string bus_id;  // the same for every process that sees this GPU, unlike its index
    int64_t memory_bytes = 0;
    std::string capability;  // "9.0"
};

// One of two files is compiled: with CUDA or without.
std::string describe_gpu_libraries();  // versions, when built and now
std::vector<Gpu> visible_gpus();
std::string why_no_gpu();               // is visible, and the cure
void make_current(c10::Device device);  // for this thread
// Ends the thread's NVTX range and begins the range `what`, for NVIDIA's profilers.
void mark_range(c10::Device device, const std::string& what);

// Bytes of the memory of the device that computes.
struct MemoryUse {
    int64_t tensors = 0;  // that they held at most, since the last time that somebody took this
    int64_t process = 0;  // that the process had at most, resident, or from the GPU's driver
    int64_t driver = 0;   // that the GPU's driver has given away now, to this process and others
};
MemoryUse take_memory_use(c10::Device device);
MemoryUse take_gpu_memory_use(c10::Device device);
// If a GPU has no memory left for a tensor, the job ends with a list of what is held there, which
// the function returns.
void set_memory_report(std::function<std::string()> list);

// Returns the device of the `local_rank`th rank of its host. The choice is the same whether the
// scheduler shows every rank all GPUs of the host or only its own. A GPU must be of a generation
// that the kernels were compiled for.
Expected<c10::Device> choose_device(config::DeviceChoice choice, int64_t local_rank,
                                    const std::vector<Gpu>& visible);

// Fails if two ranks share a GPU, which NCCL refuses. `places`: host and bus id of every rank,
// empty for a rank on the CPU.
std::optional<Failure> check_distinct(const std::vector<std::string>& places);

// Returns a warning about GPUs of different models in one job: `models` of every rank, empty for a
// rank on the CPU. Empty if they are alike.
std::string describe_mixture(const std::vector<std::string>& models);

}  // namespace ringshard::device
