#include "ringshard/device/device.hpp"

// For programs that are built without CUDA.
namespace ringshard::device {

bool is_built_with_cuda() { return false; }
std::string describe_gpu_libraries() { return "CUDA      not built in (preset `cuda`)"; }
std::vector<Gpu> visible_gpus() { return {}; }
void make_current(c10::Device device) { RINGSHARD_CHECK(device.is_cpu(), device.str()); }

}  // namespace ringshard::device
