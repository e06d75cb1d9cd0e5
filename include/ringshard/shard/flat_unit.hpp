#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::shard {

struct TensorSpec {
    std::string name;
    std::vector<int64_t> shape;
};

// Tensors that lie side by side in a flat buffer, so that they can be used as one matrix too: the
// query, key and value projections. They agree in all but their first dimension.
using TensorGroup = std::vector<TensorSpec>;

// Where a tensor lies in the flat buffer of its unit, in elements.
struct PlacedTensor {
    TensorSpec spec;
    int64_t offset;
    int64_t size;
};

// What a range of the flat buffer holds of a tensor.
struct TensorPiece {
    const PlacedTensor* tensor;
    int64_t first;     // element of the tensor
    int64_t in_range;  // element of the range
    int64_t size;
};

// The weights of one unit of the model as one flat buffer, and with the same places their gradients
// and moments: matrices first, vectors after them (weight decay is for matrices), every group
// aligned to 64 bytes of the smallest type, the whole filled up so that it can be cut into equal
// parts.
class FlatUnit {
public:
    FlatUnit(std::string name, const std::vector<TensorGroup>& groups, int64_t num_parts);

    const std::string& name() const { return name_; }
    int64_t size() const { return size_; }  // elements, filled up
    int64_t matrices_end() const { return matrices_end_; }
    const std::vector<PlacedTensor>& tensors() const { return tensors_; }

    std::vector<TensorPiece> pieces(const Range& range) const;

    // Group g of the constructor's list in a flat buffer, as one tensor.
    at::Tensor view(const at::Tensor& flat, size_t group) const;

private:
    struct PlacedGroup {
        int64_t offset;
        std::vector<int64_t> shape;
    };
    std::string name_;
    std::vector<PlacedTensor> tensors_;
    std::vector<PlacedGroup> groups_;  // in the order of the constructor's list
    int64_t matrices_end_ = 0;
    int64_t size_ = 0;
};

}  // namespace ringshard::shard
