#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <compare>
#include <cstdint>

#include "ringshard/ops/gemm.hpp"

namespace ringshard::ops {

// result = a b + addend + bias: [m, n] = [m, k] [k, n] + [m, n] + [n]. Rows or columns of a and b
// are contiguous, rows of the others. The addend may be undefined, the result itself, or lie
// apart; the bias may be undefined.
struct GpuProduct {
    at::Tensor result;
    at::Tensor a;
    at::Tensor b;
    at::Tensor addend{};
    at::Tensor bias{};
    float share_of_addend = 1;
};

// A matrix as cuBLAS has it: column after column, `stride` numbers from one to the next.
struct MatrixLayout {
    int64_t rows;
    int64_t columns;
    int64_t stride;
    auto operator<=>(const MatrixLayout&) const = default;
};

// All that cuBLASLt's choice of a kernel depends on. To cuBLAS our rows are columns, so it makes
// result^T = b^T a^T: the left factor is our b.
struct ProductShape {
    at::ScalarType type;  // of a, b and bias
    at::ScalarType type_of_result;
    MatrixLayout left;
    MatrixLayout right;
    MatrixLayout addend;  // that of the result if the product has no addend
    MatrixLayout result;
    bool turns_left;  // it is transposed
    bool turns_right;
    bool has_addend;
    bool has_bias;
    // Bytes, at most 16, beyond which no kernel gains: of left, right, addend, result.
    std::array<uint32_t, 4> alignments;
    int32_t multiprocessors;     // for which the kernel is planned; 0: all
    bool may_split_sums = true;  // in parts, of a number of terms that the kernel expects
    auto operator<=>(const ProductShape&) const = default;

    // The product alone.
    ProductShape without_additions() const;
    // Of a product of a layer: the rows that go through the layer, and the same product of however
    // many.
    int64_t tokens() const { return right.columns; }
    ProductShape of_tokens(int64_t tokens) const;
    ProductShape of_any_tokens() const { return without_additions().of_tokens(0); }
};
ProductShape shape_of(const GpuProduct& product, int32_t multiprocessors);

// Linear layers side by side (ops/grouped_linear.hpp): y = x w^T, x = y w, or w = y^T x + share w.
struct GroupedProduct {
    GemmPass pass;
    at::Tensor y;  // [rows, out]
    at::Tensor x;  // [rows, in]
    at::Tensor w;  // [groups, out, in]
    float share_of_w = 0;
};
// That of any group: the shape of so many rows, with alignments that all groups have.
ProductShape shape_of_group(const GroupedProduct& product, int64_t rows, int32_t multiprocessors);

}  // namespace ringshard::ops
