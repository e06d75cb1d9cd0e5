#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// into += a^T b in fp32, for bf16 a [t, m], b [t, n] and fp32 into [m, n]. LibTorch has no operator
// for it; its MKL does, where LibTorch was built with MKL. Which of two files answers is found out
// when the program is configured.
void add_bf16_product(const at::Tensor& into, const at::Tensor& a, const at::Tensor& b);

// a [t, k] times b [k, n], bf16, with sums in fp32, rounded once. For long k: there MKL has 450 to
// 750 GFLOP/s on a core where LibTorch's operator has 270 to 480.
at::Tensor long_bf16_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace ringshard::ops
