#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace ringshard::model {

// The documents of some rows, one row behind the other: an anchor, its positive, and negatives.
struct RowsOfTexts {
    std::vector<int64_t> starts{0};  // of each row among the documents, and their end

    int64_t size() const { return static_cast<int64_t>(starts.size()) - 1; }
    int64_t documents() const { return starts.back(); }
    void add(int64_t documents_of_row) { starts.push_back(starts.back() + documents_of_row); }
    RowsOfTexts part(int64_t first, int64_t count) const;
};

// What anchors cost: the cross-entropy of their own positives among all texts but anchors, by the
// cosines of embeddings divided by a temperature.
struct AnchorLosses {
    at::Tensor losses;    // [anchors] fp64
    at::Tensor is_right;  // [anchors] fp64: 1 where the own positive is the nearest text
    // [documents, width] fp64: the gradient of the sum of these losses by all unit vectors
    at::Tensor gradients;
};
// embeddings: of all documents of the rows, [documents, width]; anchors: the numbers of their rows.
AnchorLosses in_batch_loss(const at::Tensor& embeddings, const RowsOfTexts& rows,
                           std::span<const int64_t> anchors, double temperature);

// Turns the gradients by unit vectors into those by the embeddings, which have these directions.
at::Tensor gradients_of_embeddings(const at::Tensor& embeddings, const at::Tensor& of_units);

}  // namespace ringshard::model
