#pragma once

#include <span>
#include <vector>

#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/in_batch.hpp"
#include "ringshard/model/transformer.hpp"

namespace ringshard::train {

// Rows of a batch, which stand one behind the other among those of all ranks.
struct OwnRows {
    int64_t first;
    int64_t count;
};

// The embeddings of the texts of some rows, which every rank gets: each data rank reads its own.
class AllEmbeddings {
public:
    // numbers: the rows, in an order that all ranks share.
    AllEmbeddings(const data::Rows& rows, std::span<const int64_t> numbers, const mesh::Mesh& mesh,
                  const model::Transformer& model);

    // Computes those of a batch, whose rows stand from `first` on. Collective over the zero group.
    void read(int64_t first, data::FlatBatch batch);
    // Collects those of all ranks. Collective over the world.
    void join();

    // The texts with which anchors are compared.
    model::InBatch compared(double temperature) const { return {embeddings_, rows_, temperature}; }
    // What each batch learns. Collective over the world.
    std::vector<model::EmbeddedDocuments::Learned> learn(std::span<const OwnRows> batches,
                                                         double temperature) const;

private:
    const mesh::Mesh& mesh_;
    const model::Transformer& model_;
    model::RowsOfTexts rows_;
    at::Tensor embeddings_;  // [documents, width] fp32
};

}  // namespace ringshard::train
