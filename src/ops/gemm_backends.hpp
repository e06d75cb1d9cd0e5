#pragma once

#include "kernel_choice.hpp"
#include "ringshard/ops/gemm.hpp"

// One file each; where a build lacks a library another file stands in for it and returns null.
namespace ringshard::ops {

Expected<std::unique_ptr<GemmBackend>> open_onednn_gemm();
std::unique_ptr<GemmBackend> make_mkl_gemm();
std::unique_ptr<GemmBackend> make_aten_gemm();
std::unique_ptr<GemmBackend> make_native_gemm(const Kernels& kernels);
// Makes the memory that this backend keeps from product to product, for each thread; of the
// program's own kernels alone. Products do so themselves; a plan, which makes none, calls this.
void keep_product_memory(GemmBackend& backend);
// Gives this memory back, until the next product.
void free_product_memory(GemmBackend& backend);

// Returns a backend that multiplies bf16 as fp32: it converts both matrices block by block, sums in
// fp32 with `inner`, and rounds once. Products of fp32 go to `inner` as they are.
std::unique_ptr<GemmBackend> gemm_through_fp32(std::unique_ptr<GemmBackend> inner);

}  // namespace ringshard::ops
