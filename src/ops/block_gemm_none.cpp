#include "block_gemm.hpp"

#include "ringshard/base/error.hpp"

namespace ringshard::ops {

bool has_block_products() { return false; }

void rows_times_rows(ProductSize, Block<const bf16>, Block<const bf16>, float, Block<float>) {
    RINGSHARD_CHECK(false, "this LibTorch has no MKL");
}

void rows_times_columns(ProductSize, Block<const bf16>, Block<const bf16>, float, Block<float>) {
    RINGSHARD_CHECK(false, "this LibTorch has no MKL");
}

void columns_times_columns(ProductSize, Block<const bf16>, Block<const bf16>, float, Block<float>) {
    RINGSHARD_CHECK(false, "this LibTorch has no MKL");
}

}  // namespace ringshard::ops
