#pragma once

#include "format.hpp"

// Matrices that lie row by row, as those of FP8 and of compressed-tensors: a weight is
// (code - zero) * scale, and a block of rows and columns shares a scale.
namespace ringshard::hub {

// Equal blocks of a matrix, one for each scale, row by row.
struct ScaleBlocks {
    int64_t rows;  // of a block
    int64_t columns;
    int64_t across;  // blocks beside each other
};

// Nothing where the scales are not those of equal blocks.
std::optional<ScaleBlocks> find_blocks(const std::vector<int64_t>& shape,
                                       const std::vector<int64_t>& scales);

struct ScaledNumbers {
    std::vector<int64_t> shape{};  // [out, in]
    // F8_E4M3 and I8 [out, in]; I32 [out, in / codes in a word]: words of codes.
    StoredTensor codes{};
    int64_t bits = 0;  // of a code in a word
    StoredTensor scales{};
    std::optional<StoredTensor> zeros{};     // codes [out / codes in a word, groups]; else 0
    std::optional<StoredTensor> group_of{};  // [in]; else inputs lie group by group
    StoredType rounds_to = StoredType::fp32;
};

// Returns the tensor that reads them. Its blocks are equal (find_blocks).
StoredTensor tensor_of(const std::string& weight, ScaledNumbers numbers);

}  // namespace ringshard::hub
