#include "layer_embedding.hpp"

#include <ATen/ops/cat.h>

#include "ringshard/ops/activation.hpp"

namespace ringshard::model {

LayerEmbedding::LayerEmbedding(shard::UnitLayout& unit, SavedLayout& slots, const BlockSpec& block,
                               const LayerEmbeddingSpec& spec)
    : width_(spec.width),
      activation_(spec.activation),
      gate_(unit,
            {.layers = {{spec.gate, spec.width}}, .in = block.width, .adapters = block.adapters}),
      down_(unit,
            {.layers = {{spec.down, block.width}}, .in = spec.width, .adapters = block.adapters}),
      inner_(slots.add(config::ActivationPolicy::all)) {}

void LayerEmbedding::make_inner(const Pass& pass, const at::Tensor& x) const {
    const BlockContext& context = pass.context;
    pass.saved[inner_] = at::cat(
        {gate_.forward(context.projections, pass.weights, x), context.layer_rows.value().rows}, 1);
}

at::Tensor LayerEmbedding::make_rows(const Pass& pass, const at::Tensor& x) const {
    make_inner(pass, x);
    return ops::activate(activation_, true, pass.saved[inner_]);
}

void LayerEmbedding::chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                                    const LayerInput& input) const {
    const ProjectionContext& context = pass.context.projections;
    const at::Tensor d_product = down_.backward_input(context, pass.weights, dy);
    const at::Tensor& inner = pass.saved[inner_];
    ops::activate_backward(activation_, true, d_product, inner);
    const at::Tensor& product = d_product;  // written over
    const at::Tensor& d_inner = inner;      // written over
    down_.add_gradients(context, pass.weights, pass.gradients, dy, product);
    if (const auto& gradient = pass.context.layer_rows.value().gradient)
        gradient->copy_(d_inner.narrow(1, width_, width_));
    input.backward(pass, gate_, d_inner.narrow(1, 0, width_).contiguous(),
                   BiasGradient::is_missing);
}

void LayerEmbedding::add_costs(StageCosts& costs, const MadeAgain& again) const {
    gate_.add_products("embeddings of layers", again.inner, costs.products);
    down_.add_products("embeddings of layers", again.outer, costs.products);
    const auto width = static_cast<double>(width_);
    costs.add_rows("SwiGLU, forward", (again.outer ? 2 : 1) * 3 * width, {"::SwiGluForward"});
    costs.add_rows("SwiGLU, backward", 6 * width, {"::SwiGluBackward"});
    costs.rows_of_host += passes_of_host * width;
}

}  // namespace ringshard::model
