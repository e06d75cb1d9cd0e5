#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::config {
enum class DeviceChoice;
}

namespace ringshard::device {

struct Gpu {
    int index = 0;  // among those that this process can see
    std::string name;
    std::string bus_id;  // the same for every process that sees this GPU, unlike its index
    int64_t memory_bytes = 0;
    std::string capability;  // "9.0"
};

// One of two files is compiled: with CUDA or without.
std::string describe_gpu_libraries();  // their versions, at build time and now
std::vector<Gpu> visible_gpus();
std::string why_no_gpu();               // why no GPU is visible, and the cure
void make_current(c10::Device device);  // of this thread
// Whether products of fp32 matrices on a GPU may round them to TF32.
void allow_tf32(bool is_allowed);
// Ends the thread's NVTX range and begins the range `what`, for NVIDIA's profilers.
void mark_range(c10::Device device, const std::string& what);

// Bytes of the memory of the device that computes.
struct MemoryUse {
    int64_t tensors = 0;  // the peak of tensors since the last call of take_memory_use()
    int64_t process = 0;  // the peak of the process: resident, or reserved from the GPU's driver
    int64_t driver = 0;   // allocated now on the GPU by all processes
};
MemoryUse take_memory_use(c10::Device device);
MemoryUse take_gpu_memory_use(c10::Device device);
// Sets the function that lists the memory of this rank, for any thread; an empty one removes it. If
// a GPU has no memory left for a tensor, the job ends with this list.
void set_memory_report(std::function<std::string()> list);
// Returns the failure of a GPU that has no memory for another tensor, with the list.
Failure out_of_gpu_memory(int64_t gpu, size_t wanted, size_t total, size_t free);

// Returns the device of the `local_rank`th rank of its host. The choice is the same whether the
// scheduler shows every rank all GPUs of the host or only its own. A GPU must be of a generation
// that the kernels were compiled for.
Expected<c10::Device> choose_device(config::DeviceChoice choice, int64_t local_rank,
                                    const std::vector<Gpu>& visible);

// Fails if this rank is on a CPU and others are on GPUs, of which there are `on_gpus`.
std::optional<Failure> check_same_kind(c10::Device device, int64_t on_gpus, int64_t ranks);

// Fails if the device is a GPU without products in FP8.
std::optional<Failure> check_fp8(c10::Device device, const std::vector<Gpu>& visible);

// Fails if two ranks share a GPU, which NCCL refuses. `places`: host and bus id of every rank,
// empty for a rank on the CPU.
std::optional<Failure> check_distinct(const std::vector<std::string>& places);

// Returns a warning about GPUs of different models in one job: `models` of every rank, empty for a
// rank on the CPU. Empty if they are alike.
std::string describe_mixture(const std::vector<std::string>& models);

}  // namespace ringshard::device
