#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <array>

#include "ringshard/device/device.hpp"

// For programs that are built with CUDA. On a machine without a driver there is simply no GPU.
namespace ringshard::device {

bool is_built_with_cuda() { return true; }

std::string describe_gpu_libraries() {
    const auto readable = [](int version) {
        return concat(version / 1000, ".", version % 1000 / 10);
    };
    int runtime = 0;
    int driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    return concat("CUDA      built with ", readable(CUDART_VERSION), ", runtime ",
                  readable(runtime), ", driver ", driver == 0 ? "none" : readable(driver));
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
        RINGSHARD_CHECK(cudaGetDeviceProperties(&properties, index) == cudaSuccess, "GPU ", index);
        RINGSHARD_CHECK(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()),
                                              index) == cudaSuccess,
                        "GPU ", index);
        gpus.push_back({index, properties.name, bus_id.data(),
                        static_cast<int64_t>(properties.totalGlobalMem),
                        concat(properties.major, ".", properties.minor)});
    }
    return gpus;
}

void make_current(c10::Device device) {
    if (device.is_cuda()) c10::cuda::set_device(device.index());
}

}  // namespace ringshard::device
