#include "ringshard/base/error.hpp"
#include "ringshard/ops/product_kernels.hpp"

namespace ringshard::ops {

std::unique_ptr<ProductKernels> open_product_kernels(const Gemms&) {
    RINGSHARD_CHECK(false, "a build without CUDA has no kernels for GPUs");
}

}  // namespace ringshard::ops
