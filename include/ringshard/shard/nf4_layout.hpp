#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ringshard/ops/nf4.hpp"

namespace ringshard::shard {

// The places of matrices in four bits in a buffer of bytes: the codes of all matrices, each in
// whole blocks, then the scales of all blocks. Nested scales are a byte each; their own scales and
// the mean of each matrix follow, in fp32.
class Nf4Layout {
public:
    enum class Scales { plain, nested };
    // `sizes`: weights of each matrix.
    Nf4Layout(Scales scales, const std::vector<int64_t>& sizes);

    int64_t bytes() const { return bytes_; }
    int64_t code_bytes() const { return num_blocks_ * ops::nf4_block_bytes; }
    int64_t num_blocks() const { return num_blocks_; }
    int64_t first_block(size_t matrix) const { return matrices_[matrix].first_block; }
    ops::Nf4Matrix matrix(const at::Tensor& flat, size_t matrix) const;

    // Returns the bytes behind the codes, made of the scales of all blocks.
    std::vector<uint8_t> scale_bytes(std::span<const float> scales) const;

private:
    struct Matrix {
        int64_t first_block;
        int64_t num_blocks;
        int64_t first_nested;  // of the scales of nested scales
    };
    Scales scales_;
    std::vector<Matrix> matrices_;
    int64_t num_blocks_ = 0;
    int64_t nested_begin_ = 0;  // in bytes
    int64_t means_begin_ = 0;
    int64_t bytes_ = 0;
};

}  // namespace ringshard::shard
