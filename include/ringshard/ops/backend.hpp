#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// Do kernels of the GPU work on this tensor? Exists in programs that are built with CUDA.
bool uses_gpu_kernels(const at::Tensor& tensor);

}  // namespace ringshard::ops
