#include "ringshard/device/device.hpp"

// For programs that are built without CUDA.
namespace ringshard::device {

std::string describe_gpu_libraries() { return "CUDA      not built in (preset `cuda`)"; }
std::vector<Gpu> visible_gpus() { return {}; }
std::string why_no_gpu() { return "this program was built without CUDA: build the preset `cuda`"; }
MemoryUse take_gpu_memory_use(c10::Device) { return {}; }
void mark_range(c10::Device, const std::string&) {}
void make_current(c10::Device device) { RINGSHARD_CHECK(device.is_cpu(), "{}", device.str()); }

void allow_tf32(bool) {}

}  // namespace ringshard::device
