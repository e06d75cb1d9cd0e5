#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstdint>

#include "bf16_gemm.hpp"
#include "ringshard/ops/flat.hpp"

#include "ringshard/base/narrow.hpp"

// MKL's interface, which LibTorch exports without a header: row-major is 101, no transposition 111,
// transposition 112.
extern "C" void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n,
                                       int k, float alpha, const uint16_t* a, int lda,
                                       const uint16_t* b, int ldb, float beta, float* c, int ldc);

namespace ringshard::ops {

namespace {

// into [m, n] += a (transposed or not) times b [k, n]
void add_product(const at::Tensor& into, int transpose_a, const at::Tensor& a,
                 const at::Tensor& b) {
    if (into.is_meta()) return;
    constexpr int row_major = 101;
    constexpr int as_it_is = 111;
    RINGSHARD_CHECK(into.stride(1) == 1 && a.stride(1) == 1 && b.stride(1) == 1);
    cblas_gemm_bf16bf16f32(row_major, transpose_a, as_it_is, narrow<int>(into.size(0)),
                           narrow<int>(into.size(1)), narrow<int>(b.size(0)), 1.0F,
                           static_cast<const uint16_t*>(a.data_ptr()), narrow<int>(a.stride(0)),
                           static_cast<const uint16_t*>(b.data_ptr()), narrow<int>(b.stride(0)),
                           1.0F, static_cast<float*>(into.data_ptr()), narrow<int>(into.stride(0)));
}

}  // namespace

void add_bf16_product(const at::Tensor& into, const at::Tensor& a, const at::Tensor& b) {
    constexpr int transposed = 112;
    add_product(into, transposed, a, b);
}

at::Tensor long_bf16_product(const at::Tensor& a, const at::Tensor& b) {
    constexpr int as_it_is = 111;
    // Adding to zeros is what MKL does fastest: faster than overwriting.
    const at::Tensor sums = at::zeros({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
    add_product(sums, as_it_is, a, b);
    at::Tensor product = at::empty(sums.sizes(), a.options());
    cast(product, sums);
    return product;
}

}  // namespace ringshard::ops
