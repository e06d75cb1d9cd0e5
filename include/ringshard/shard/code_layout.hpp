#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ringshard/ops/nf4.hpp"
#include "ringshard/shard/placement.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

// The places of quantised matrices in a buffer of bytes: the codes of all matrices, then the scales
// of all groups of weights. A group is a block of 64 weights in four bits, the last one of a matrix
// may be short, and a row in eight bits. Nested scales are a byte each; their own scales and the
// mean of each matrix follow, in fp32.
class CodeLayout {
public:
    struct MatrixSize {
        int64_t weights;
        int64_t width;  // of a row
    };
    CodeLayout(Codec codec, const std::vector<MatrixSize>& sizes);

    int64_t bytes() const { return bytes_; }
    int64_t code_bytes() const { return code_bytes_; }
    int64_t num_scales() const { return num_scales_; }
    bool is_in_four_bits() const { return codec_ != Codec::int8; }
    int64_t weights_of_byte() const { return is_in_four_bits() ? 2 : 1; }
    // Of a matrix whose rows have this width.
    int64_t group(int64_t width) const { return codec_ == Codec::int8 ? width : ops::nf4_block; }
    // The weights of a matrix that come first, among the weights that the bytes of codes have.
    int64_t first_weight(size_t matrix) const {
        return matrices_[matrix].first_byte * weights_of_byte();
    }
    // Returns the scale of the first group whose codes begin at this byte or later; and those of
    // the groups that begin in a range of bytes.
    int64_t first_scale_from(int64_t byte) const;
    Range scales_begun_in(const Range& bytes) const {
        return {first_scale_from(bytes.begin), first_scale_from(bytes.end)};
    }

    // Quantises whole groups of weights of a matrix. Returns false where a weight is beyond the
    // range of fp16, to which eight bits round it.
    bool quantize(std::span<const float> weights, int64_t width, std::span<uint8_t> codes,
                  std::span<float> scales) const;
    int64_t code_bytes_of(int64_t weights) const;  // of whole groups
    // Writes the weights of a matrix, fp32 or bf16.
    void dequantize(const at::Tensor& into, const at::Tensor& flat, size_t matrix) const;

    // Returns the bytes behind the codes, made of the scales of all groups; nested scales of some
    // matrices, by their number, may be known.
    using NestedByMatrix = std::map<size_t, ops::NestedScales>;
    std::vector<uint8_t> scale_bytes(std::span<const float> scales,
                                     const NestedByMatrix& known = {}) const;

private:
    struct Matrix {
        int64_t first_byte;
        int64_t bytes;
        int64_t first_scale;
        int64_t num_scales;
        int64_t first_nested;  // of the scales of nested scales
        int64_t group_bytes;
    };
    ops::Nf4Matrix in_four_bits(const at::Tensor& flat, size_t matrix) const;

    Codec codec_;
    std::vector<Matrix> matrices_;
    int64_t code_bytes_ = 0;
    int64_t num_scales_ = 0;
    int64_t nested_begin_ = 0;  // in bytes
    int64_t means_begin_ = 0;
    int64_t bytes_ = 0;
};

}  // namespace ringshard::shard
