#pragma once

#include <cstdint>

#include "number.hpp"

// Products of small matrices of bf16 inside larger ones, on the caller's thread where it is one of
// several.
namespace ringshard::ops {

// LibTorch's MKL has them, where LibTorch was built with MKL; without it they must not be called.
bool has_block_products();

// Rows of numbers, `stride` apart.
template <class T>
struct Block {
    T* data;
    int64_t stride;
    Block row(int64_t r) const { return {data + r * stride, stride}; }
};

struct ProductSize {
    int64_t m;
    int64_t n;
    int64_t k;
};
// c [m, n] = keep * c + the product, with sums in fp32; keep is 0 or 1.
// a [m, k] times the rows of b [n, k]
void rows_times_rows(ProductSize size, Block<const bf16> a, Block<const bf16> b, float keep,
                     Block<float> c);
// a [m, k] times b [k, n]
void rows_times_columns(ProductSize size, Block<const bf16> a, Block<const bf16> b, float keep,
                        Block<float> c);
// the columns of a [k, m] times b [k, n]
void columns_times_columns(ProductSize size, Block<const bf16> a, Block<const bf16> b, float keep,
                           Block<float> c);

}  // namespace ringshard::ops
