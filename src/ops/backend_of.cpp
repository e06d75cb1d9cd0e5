#include "backends.hpp"

// In a file of its own, so that a test can put another one in its place.
namespace ringshard::ops {

#define RINGSHARD_OF_CPU(operation) cpu::operation,
#define RINGSHARD_OF_CUDA(operation) cuda::operation,
#define RINGSHARD_OF_META(operation) meta::operation,

const Backend& backend_of(const at::Tensor& tensor) {
    if constexpr (RINGSHARD_HAS_CUDA) {
        static constexpr Backend of_cuda{RINGSHARD_FOR_OPERATIONS(RINGSHARD_OF_CUDA)};
        if (uses_gpu_kernels(tensor)) return of_cuda;
    }
    static constexpr Backend of_cpu{RINGSHARD_FOR_OPERATIONS(RINGSHARD_OF_CPU)};
    static constexpr Backend of_meta{RINGSHARD_FOR_OPERATIONS(RINGSHARD_OF_META)};
    return tensor.is_meta() ? of_meta : of_cpu;
}

}  // namespace ringshard::ops
