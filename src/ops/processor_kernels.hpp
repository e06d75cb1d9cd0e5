#pragma once

#include "attention_loops.hpp"
#include "gemm_loops.hpp"
#include "kernel_choice.hpp"

// All kernels of one kind of processor, of the same two classes of products.
namespace ringshard::ops {
namespace {

// OfFp32 for numbers of fp32, OfBf16 for those of bf16.
template <class OfFp32, class OfBf16>
constexpr Kernels kernels_of(const char* name) {
    return {name, attention_kernels_of<OfFp32, OfBf16>(), gemm_kernels_of<OfFp32, OfBf16>()};
}

}  // namespace
}  // namespace ringshard::ops
