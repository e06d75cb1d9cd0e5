#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels.hpp"
#include "ringshard/base/error.hpp"

// Turns tensors into the pointers and types that kernels take.
namespace ringshard::ops::gpu {

inline Queue queue_of(const at::Tensor& tensor) {
    if (!tensor.is_cuda()) return {};
    return {true, c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream()};
}

inline NumberType type_of(const at::Tensor& tensor) {
    if (tensor.scalar_type() == at::kFloat) return NumberType::fp32;
    RINGSHARD_CHECK(tensor.scalar_type() == at::kBFloat16, "computation in {}",
                    c10::toString(tensor.scalar_type()));
    return NumberType::bf16;
}

template <class Number = void>
Number* data(const at::Tensor& tensor) {
    RINGSHARD_CHECK(tensor.is_contiguous());
    return static_cast<Number*>(tensor.data_ptr());
}

}  // namespace ringshard::ops::gpu
