#include "product_shape.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"

namespace ringshard::ops {

namespace {

// The stride of a matrix with one row has no meaning and may be any number.
MatrixLayout layout_of_rows(const at::Tensor& rows) {
    RINGSHARD_CHECK(rows.size(1) == 1 || rows.stride(1) == 1);
    return {rows.size(1), rows.size(0),
            rows.size(0) == 1 ? rows.size(1) : std::max(rows.stride(0), rows.size(1))};
}

// A factor: its rows are columns to cuBLAS; a factor whose columns are contiguous is transposed.
struct Factor {
    explicit Factor(const at::Tensor& matrix)
        : is_turned(matrix.stride(1) != 1 && matrix.size(1) != 1),
          layout(layout_of_rows(is_turned ? matrix.t() : matrix)) {}
    bool is_turned;
    MatrixLayout layout;
};

uint32_t alignment_of(const at::Tensor& tensor) {
    constexpr uintptr_t most = 16;
    const auto place = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    uintptr_t alignment = most;
    while (place % alignment != 0) alignment /= 2;
    return static_cast<uint32_t>(alignment);
}

}  // namespace

ProductShape shape_of(const GpuProduct& product, int32_t multiprocessors) {
    const auto& [result, a, b, addend, bias, share] = product;
    RINGSHARD_CHECK(a.size(1) == b.size(0) && result.size(0) == a.size(0) &&
                    result.size(1) == b.size(1) && a.scalar_type() == b.scalar_type());
    RINGSHARD_CHECK(!addend.defined() || (addend.sizes() == result.sizes() &&
                                          addend.scalar_type() == result.scalar_type()));
    RINGSHARD_CHECK(!bias.defined() || (bias.is_contiguous() && bias.numel() == result.size(1) &&
                                        bias.scalar_type() == a.scalar_type()));
    const Factor left(b);
    const Factor right(a);
    const at::Tensor& added = addend.defined() ? addend : result;
    return {
        .type = a.scalar_type(),
        .type_of_result = result.scalar_type(),
        .left = left.layout,
        .right = right.layout,
        .addend = layout_of_rows(added),
        .result = layout_of_rows(result),
        .turns_left = left.is_turned,
        .turns_right = right.is_turned,
        .has_addend = addend.defined(),
        .has_bias = bias.defined(),
        .alignments = {alignment_of(b), alignment_of(a), alignment_of(added), alignment_of(result)},
        .multiprocessors = multiprocessors};
}

ProductShape ProductShape::without_additions() const {
    ProductShape alone = *this;
    alone.addend = alone.result;
    alone.alignments[2] = alone.alignments[3];
    alone.has_addend = alone.has_bias = false;
    return alone;
}

ProductShape ProductShape::of_tokens(int64_t tokens) const {
    ProductShape other = *this;
    other.right.columns = tokens;
    if (turns_right)  // a sum over the tokens
        other.left.columns = tokens;
    else
        other.addend.columns = other.result.columns = tokens;
    return other;
}

namespace {

GpuProduct product_of_group(const GroupedProduct& all) {
    const at::Tensor w = all.w.select(0, 0);
    switch (all.pass) {
        case GemmPass::forward: return {all.y, all.x, w.t()};
        case GemmPass::input_gradient: return {all.x, all.y, w};
        case GemmPass::weight_gradient: break;
    }
    return {w, all.y.t(), all.x, w, at::Tensor(), all.share_of_w};
}

// Of the parts of a tensor along its first dimension.
uint32_t alignment_of_parts(const at::Tensor& all) {
    uint32_t alignment = alignment_of(all);
    while (all.stride(0) * all.element_size() % alignment != 0) alignment /= 2;
    return alignment;
}

}  // namespace

ProductShape shape_of_group(const GroupedProduct& product, int64_t rows, int32_t multiprocessors) {
    ProductShape shape = shape_of(product_of_group(product), multiprocessors).of_tokens(rows);
    shape.may_split_sums = false;
    const uint32_t y = alignment_of_parts(product.y);
    const uint32_t x = alignment_of_parts(product.x);
    const uint32_t w = alignment_of_parts(product.w);
    switch (product.pass) {
        case GemmPass::forward: shape.alignments = {w, x, y, y}; break;
        case GemmPass::input_gradient: shape.alignments = {w, y, x, x}; break;
        case GemmPass::weight_gradient: shape.alignments = {x, y, w, w}; break;
    }
    return shape;
}

}  // namespace ringshard::ops
