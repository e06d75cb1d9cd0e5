#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// Returns true if the GPU kernels compute on this tensor. Only builds with CUDA define it.
bool uses_gpu_kernels(const at::Tensor& tensor);

}  // namespace ringshard::ops
