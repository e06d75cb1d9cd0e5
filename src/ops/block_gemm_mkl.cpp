#include "block_gemm.hpp"

#include "ringshard/base/narrow.hpp"

// MKL's interface, which LibTorch exports without a header.
extern "C" void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n,
                                       int k, float alpha, const uint16_t* a, int lda,
                                       const uint16_t* b, int ldb, float beta, float* c, int ldc);

namespace ringshard::ops {

bool has_block_products() { return true; }

namespace {

enum class Side { as_it_is, transposed };

void multiply(Side side_a, Side side_b, ProductSize size, Block<const bf16> a, Block<const bf16> b,
              float keep, Block<float> c) {
    constexpr int row_major = 101;
    const auto name = [](Side side) { return side == Side::as_it_is ? 111 : 112; };
    cblas_gemm_bf16bf16f32(row_major, name(side_a), name(side_b), narrow<int>(size.m),
                           narrow<int>(size.n), narrow<int>(size.k), 1.0F,
                           reinterpret_cast<const uint16_t*>(a.data), narrow<int>(a.stride),
                           reinterpret_cast<const uint16_t*>(b.data), narrow<int>(b.stride), keep,
                           c.data, narrow<int>(c.stride));
}

}  // namespace

void rows_times_rows(ProductSize size, Block<const bf16> a, Block<const bf16> b, float keep,
                     Block<float> c) {
    multiply(Side::as_it_is, Side::transposed, size, a, b, keep, c);
}

void rows_times_columns(ProductSize size, Block<const bf16> a, Block<const bf16> b, float keep,
                        Block<float> c) {
    multiply(Side::as_it_is, Side::as_it_is, size, a, b, keep, c);
}

void columns_times_columns(ProductSize size, Block<const bf16> a, Block<const bf16> b, float keep,
                           Block<float> c) {
    multiply(Side::transposed, Side::as_it_is, size, a, b, keep, c);
}

}  // namespace ringshard::ops
