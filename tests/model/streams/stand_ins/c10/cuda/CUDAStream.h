#pragma once

#include <c10/core/Device.h>

#include "cuda_runtime_api.h"

namespace c10::cuda {

class CUDAStream {
public:
    explicit CUDAStream(int number) : number_(number) {}
    cudaStream_t stream() const { return number_; }
    operator cudaStream_t() const { return number_; }
    DeviceIndex device_index() const { return 0; }

private:
    int number_;
};

inline CUDAStream getStreamFromPool(bool, DeviceIndex) {
    return CUDAStream(ringshard::test::StreamModel::current()->make_stream());
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = 0) {
    return CUDAStream(ringshard::test::StreamModel::current()->stream());
}

}  // namespace c10::cuda
