#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <fstream>
#include <mutex>

#include "ringshard/device/device.hpp"

// For programs that are built with CUDA. On a machine without a driver there is simply no GPU.
namespace ringshard::device {

namespace {

// The file of a library that this process has loaded, empty if none.
std::string loaded_file(const std::string& name) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const size_t path = line.find('/');
        if (path != std::string::npos && line.find("/" + name, path) != std::string::npos)
            return line.substr(path);
    }
    return {};
}

// A cuDNN of the system that is loaded before LibTorch's own silently makes attention on Hopper
// slow.
std::string describe_cudnn() {
    const auto& hooks = at::detail::getCUDAHooks();
    if (!hooks.hasCuDNN()) return ", no cuDNN";
    const std::string file = loaded_file("libcudnn.so");
    const bool is_its_own = file.find("/nvidia/cudnn/") != std::string::npos;
    return format_text(", cuDNN {}{}{}", hooks.versionRuntimeCuDNN(),
                       hooks.versionRuntimeCuDNN() == hooks.versionCuDNN()
                           ? ""
                           : format_text(" (LibTorch was built with {})", hooks.versionCuDNN()),
                       file.empty() || is_its_own
                           ? ""
                           : format_text("; this is not LibTorch's own cuDNN but {}: take it out "
                                         "of LD_LIBRARY_PATH if attention is slow",
                                         file));
}

}  // namespace

std::string describe_gpu_libraries() {
    const auto readable = [](int version) {
        return format_text("{}.{}", version / 1000, version % 1000 / 10);
    };
    int runtime = 0;
    int driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    return format_text("CUDA      built with {}, runtime {}, driver {}{}", readable(CUDART_VERSION),
                       readable(runtime), driver == 0 ? "none" : readable(driver),
                       driver == 0 ? "" : describe_cudnn());
}

std::string why_no_gpu() {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError();  // clears it
    if (error == cudaErrorInsufficientDriver) {
        int driver = 0;
        cudaDriverGetVersion(&driver);
        if (driver > 0)
            return format_text(
                "the driver is for CUDA {}.{}, and this program needs {}.{}: ask for a newer "
                "driver",
                driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                CUDART_VERSION % 1000 / 10);
    }
    return "no GPU is visible: ask the scheduler for one, look at CUDA_VISIBLE_DEVICES and "
           "`nvidia-smi`";
}

MemoryUse take_gpu_memory_use(c10::Device device) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    constexpr size_t all = 0;  // pools together
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
    return {.tensors = stats.allocated_bytes[all].peak,
            .process = stats.reserved_bytes[all].peak,
            .driver = static_cast<int64_t>(total - free)};
}

std::vector<Gpu> visible_gpus() {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();  // clears it
        return {};
    }
    std::vector<Gpu> gpus;
    for (int index = 0; index < count; ++index) {
        cudaDeviceProp properties{};
        std::array<char, 32> bus_id{};
        RINGSHARD_CHECK(cudaGetDeviceProperties(&properties, index) == cudaSuccess, "GPU {}",
                        index);
        RINGSHARD_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()),
                                              index) == cudaSuccess,
                        "GPU {}", index);
        gpus.push_back({index, properties.name, bus_id.data(),
                        static_cast<int64_t>(properties.totalGlobalMem),
                        format_text("{}.{}", properties.major, properties.minor)});
    }
    return gpus;
}

void mark_range(c10::Device device, const std::string& what) {
    if (!device.is_cuda()) return;
    nvtxRangePop();  // of nothing is nothing
    nvtxRangePushA(what.c_str());
}

namespace {

// Once in a process: LibTorch's allocator adds observers and removes none. It has those of a GPU
// only after LibTorch knows the GPU.
void watch_memory() {
    static std::once_flag is_watched;
    std::call_once(is_watched, [] {
        at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
        c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
            [](int64_t gpu, size_t wanted, size_t total, size_t free) {
                const Failure failure = out_of_gpu_memory(gpu, wanted, total, free);
                throw Error(failure.code, failure.message);
            });
    });
}

}  // namespace

void make_current(c10::Device device) {
    if (!device.is_cuda()) return;
    c10::cuda::set_device(device.index());
    watch_memory();
}

void allow_tf32(bool is_allowed) { at::globalContext().setAllowTF32CuBLAS(is_allowed); }

}  // namespace ringshard::device
