#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <utility>
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
};

// The texts of some rows, with which anchors among them are compared.
class InBatch {
public:
    // embeddings: of all documents of the rows, [documents, width]. `rows` must outlive it.
    InBatch(const at::Tensor& embeddings, const RowsOfTexts& rows, double temperature);

    // anchors: the numbers of their rows.
    AnchorLosses losses_of(std::span<const int64_t> anchors) const;
    // Returns also the gradient of the sum of these losses by all unit vectors: [documents, width]
    // fp64.
    std::pair<AnchorLosses, at::Tensor> learn(std::span<const int64_t> anchors) const;

private:
    struct Compared {
        at::Tensor anchors;    // documents
        at::Tensor positives;  // among the texts
        at::Tensor units;      // of the anchors
        at::Tensor log_p;      // [anchors, texts]
        AnchorLosses losses;
    };
    Compared compare(std::span<const int64_t> anchors) const;
    at::Tensor there(const std::vector<int64_t>& numbers) const;

    const RowsOfTexts& rows_;
    double temperature_;
    at::Tensor units_;     // of all documents, fp64
    at::Tensor texts_;     // the documents that are no anchors
    at::Tensor of_texts_;  // their units
};

// Turns the gradients by unit vectors into those by the embeddings, which have these directions.
at::Tensor gradients_of_embeddings(const at::Tensor& embeddings, const at::Tensor& of_units);

}  // namespace ringshard::model
