#include "layer_embeddings.hpp"

#include <ATen/ops/scalar_tensor.h>

#include <cmath>
#include <numbers>

#include "ringshard/base/narrow.hpp"
#include "ringshard/ops/embedding.hpp"

namespace ringshard::model {

namespace {

constexpr double half_of_both = 1 / std::numbers::sqrt2;  // of the table's rows and the products

int64_t num_blocks(const ModelSpec& spec) { return narrow<int64_t>(spec.blocks.size()); }

shard::ParameterId add_table(const ModelSpec& spec, shard::UnitLayout& unit) {
    const LayerEmbeddingsSpec& layers = spec.layer_embeddings.value();
    return unit.add({.tensors = {{layers.table + ".weight",
                                  {spec.vocabulary, num_blocks(spec) * layers.width}}},
                     .stand = shard::Stand::table});
}

ProjectionSpec projection_of(const ModelSpec& spec) {
    const LayerEmbeddingsSpec& layers = spec.layer_embeddings.value();
    return {.layers = {{layers.projection, num_blocks(spec) * layers.width}},
            .in = spec.width,
            .adapters = spec.adapters};
}

// transformers rounds the factor of a table to the type of its rows.
at::Tensor rounded(double factor, const at::Tensor& rows) {
    return at::scalar_tensor(factor, at::TensorOptions(rows.scalar_type()));
}

}  // namespace

LayerEmbeddings::LayerEmbeddings(const ModelSpec& spec, shard::UnitLayout& table,
                                 shard::UnitLayout& projection)
    : table_factor_(std::sqrt(static_cast<double>(spec.layer_embeddings->width))),
      product_factor_(1 / std::sqrt(static_cast<double>(spec.width))),
      table_(add_table(spec, table)),
      projection_(projection, projection_of(spec)),
      norm_(projection, slots_,
            Norm::Spec{spec.layer_embeddings->norm, spec.layer_embeddings->width, spec.norm},
            {0, num_blocks(spec)}) {}

at::Tensor LayerEmbeddings::look_up(const shard::UnitTensors& table,
                                    const at::Tensor& tokens) const {
    const at::Tensor rows = ops::embedding(tokens, table[table_]);
    return rows.mul_(rounded(table_factor_, rows));
}

at::Tensor LayerEmbeddings::project(const ProjectionContext& context,
                                    const shard::UnitTensors& projection, const at::Tensor& x,
                                    Saved& saved) const {
    const at::Tensor products = projection_.forward(context, projection, x).mul_(product_factor_);
    norm_.forward(projection, products, saved);
    return products;
}

at::Tensor LayerEmbeddings::join(const ProjectionContext& context,
                                 const shard::UnitTensors& projection, const at::Tensor& rows,
                                 const at::Tensor& x) const {
    Saved saved = slots_.make();
    return rows.add_(project(context, projection, x, saved)).mul_(half_of_both);
}

at::Tensor LayerEmbeddings::join_backward(const ProjectionContext& context,
                                          const shard::UnitTensors& projection,
                                          const shard::UnitTensors& gradients,
                                          const at::Tensor& d_rows, const at::Tensor& x) const {
    Saved saved = slots_.make();
    project(context, projection, x, saved);
    d_rows.mul_(half_of_both);
    norm_.backward(projection, gradients, d_rows, saved);
    saved = {};
    d_rows.mul_(product_factor_);
    return projection_.backward(context, projection, gradients, d_rows, x);
}

void LayerEmbeddings::look_up_backward(const shard::UnitTensors& gradients,
                                       const at::Tensor& tokens, const at::Tensor& d_rows,
                                       std::optional<int64_t> padding_token) const {
    if (!gradients.has(table_)) return;
    const at::Tensor d_table = d_rows * half_of_both;
    ops::embedding_backward(d_table.mul_(rounded(table_factor_, d_table)), tokens,
                            gradients[table_], padding_token);
}

}  // namespace ringshard::model
