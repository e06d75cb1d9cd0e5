#include <ATen/ops/mm.h>

#include "bf16_gemm.hpp"

namespace ringshard::ops {

void add_bf16_product(const at::Tensor& into, const at::Tensor& a, const at::Tensor& b) {
    into.add_(at::mm(a.t(), b));
}

at::Tensor long_bf16_product(const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); }

}  // namespace ringshard::ops
