#pragma once

#include "parts/norm.hpp"
#include "parts/projection.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// The embeddings of layers: [t, blocks x width], rows of a table of their own, and products of the
// input of the first block, which are normed block by block.
class LayerEmbeddings {
public:
    LayerEmbeddings(const ModelSpec& spec, shard::UnitLayout& table, shard::UnitLayout& projection);

    // Returns the rows of the table for tokens [t].
    at::Tensor look_up(const shard::UnitTensors& table, const at::Tensor& tokens) const;
    // Returns those with the products of x [t, w]. Writes over the rows.
    at::Tensor join(const ProjectionContext& context, const shard::UnitTensors& projection,
                    const at::Tensor& rows, const at::Tensor& x) const;
    // Adds to the gradients of the projection, and returns that of x. Turns d_rows into the
    // gradient of the products.
    at::Tensor join_backward(const ProjectionContext& context, const shard::UnitTensors& projection,
                             const shard::UnitTensors& gradients, const at::Tensor& d_rows,
                             const at::Tensor& x) const;
    // Adds to the gradient of the table, if it is trained.
    void look_up_backward(const shard::UnitTensors& gradients, const at::Tensor& tokens,
                          const at::Tensor& d_rows, std::optional<int64_t> padding_token) const;

    const Projection& projection() const { return projection_; }

private:
    // Returns the products of x, normed; `saved` gets what the norm's backward pass reads.
    at::Tensor project(const ProjectionContext& context, const shard::UnitTensors& projection,
                       const at::Tensor& x, Saved& saved) const;

    double table_factor_;    // of the rows of the table
    double product_factor_;  // of the products
    SavedLayout slots_;
    shard::ParameterId table_;
    Projection projection_;
    HeadNorm norm_;
};

}  // namespace ringshard::model
