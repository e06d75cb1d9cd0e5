#include "backends.hpp"

namespace ringshard::ops {

bool uses_gpu_kernels(const at::Tensor& tensor) { return tensor.is_cuda(); }

}  // namespace ringshard::ops
