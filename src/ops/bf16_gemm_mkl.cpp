#include "bf16_gemm.hpp"

#include <cstdint>

#include "ringshard/base/narrow.hpp"

// MKL's interface, which LibTorch exports without a header: row-major is 101, no transposition 111,
// transposition 112.
extern "C" void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n,
                                       int k, float alpha, const uint16_t* a, int lda,
                                       const uint16_t* b, int ldb, float beta, float* c, int ldc);

namespace ringshard::ops {

void add_bf16_product(const at::Tensor& into, const at::Tensor& a, const at::Tensor& b) {
    constexpr int row_major = 101;
    constexpr int as_it_is = 111;
    constexpr int transposed = 112;
    RINGSHARD_CHECK(into.stride(1) == 1 && a.stride(1) == 1 && b.stride(1) == 1);
    const int m = narrow<int>(a.size(1));
    const int n = narrow<int>(b.size(1));
    const int k = narrow<int>(a.size(0));
    cblas_gemm_bf16bf16f32(row_major, transposed, as_it_is, m, n, k, 1.0F,
                           static_cast<const uint16_t*>(a.data_ptr()), narrow<int>(a.stride(0)),
                           static_cast<const uint16_t*>(b.data_ptr()), narrow<int>(b.stride(0)),
                           1.0F, static_cast<float*>(into.data_ptr()), narrow<int>(into.stride(0)));
}

}  // namespace ringshard::ops
