#include "ringshard/ops/device_copies.hpp"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <cstring>

namespace ringshard::ops {

at::Tensor on_device(const void* numbers, int64_t count, at::ScalarType type, at::Device device) {
    RECORD_USER_SCOPE(span_to_device);
    const at::Tensor here =
        at::empty({count}, at::TensorOptions(type).pinned_memory(device.is_cuda()));
    if (count > 0) std::memcpy(here.mutable_data_ptr(), numbers, here.nbytes());
    constexpr bool without_waiting = true;
    return here.to(device, without_waiting);
}

at::Tensor on_host(const at::Tensor& tensor) {
    RECORD_USER_SCOPE(span_to_host);
    return tensor.cpu();
}

}  // namespace ringshard::ops
