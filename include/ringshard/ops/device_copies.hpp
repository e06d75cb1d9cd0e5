#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <vector>

// All small copies between the host and a device: gpu_passes_test counts them.
namespace ringshard::ops {

// Their names in profiles.
inline constexpr const char* span_to_device = "numbers to the device";
inline constexpr const char* span_to_host = "numbers to the host";

// Returns the bytes as a tensor of one dimension. On a GPU they go through pinned memory, so that
// the host does not wait for the work before: LibTorch keeps that memory until the copy is done.
at::Tensor on_device(const void* numbers, int64_t count, at::ScalarType type, at::Device device);

template <class Number>
at::Tensor on_device(const std::vector<Number>& numbers, at::Device device) {
    return on_device(numbers.data(), static_cast<int64_t>(numbers.size()),
                     c10::CppTypeToScalarType<Number>(), device);
}

// Returns the tensor on the host, which waits for the work of a GPU before it.
at::Tensor on_host(const at::Tensor& tensor);

}  // namespace ringshard::ops
