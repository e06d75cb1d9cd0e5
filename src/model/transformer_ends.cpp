#include <algorithm>

#include "model_parts.hpp"
#include "ringshard/base/mix.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/ops/dropout.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/linear.hpp"
#include "unit_set.hpp"

// The embedding and the head of a model, of which adapters that train together may have their own.
namespace ringshard::model {

template <class Work>
void Transformer::for_own_tables(const TokenBatch& batch, Work work) const {
    const std::vector<int64_t>& bounds = batch.learner_bounds;
    for (size_t learner = 0; learner < parts_->own_tables.size() && !bounds.empty(); ++learner) {
        const int64_t length = bounds.at(learner + 1) - bounds.at(learner);
        if (parts_->own_tables[learner] && length > 0)
            work(*parts_->own_tables[learner], bounds[learner], length);
    }
}

at::Tensor Transformer::embed(const TokenBatch& batch) const {
    const shard::UnitTensors weights = weights_of(index_.embedding);
    at::Tensor x = ops::embedding(batch.tokens, weights[parts_->table]);
    if (parts_->table_adapter) parts_->table_adapter->add_rows(gemms_, weights, batch.tokens, x);
    if (parts_->table_rows) parts_->table_rows->replace_rows(gemms_, weights, batch.tokens, x);
    for_own_tables(batch, [&](shard::ParameterId table, int64_t begin, int64_t length) {
        x.narrow(0, begin, length)
            .copy_(ops::embedding(batch.tokens.narrow(0, begin, length), weights[table]));
    });
    x = x.to(residual_type_);  // all blocks add to rows of this type
    if (!parts_->positions) return x;
    const at::Tensor rows = ops::embedding(batch.positions, weights[*parts_->positions]);
    return ops::add_into(rows, x, x);
}

void Transformer::add_noise(const TokenBatch& batch, const at::Tensor& x) const {
    const at::Tensor sizes = batch.document_lengths.to(at::kFloat).mul_(spec_.width);
    ops::add_noise(x, *batch.dropout_keys, hash_text("neftune"), sizes.rsqrt_().mul_(noise_));
}

void Transformer::embed_backward(const TokenBatch& batch, const at::Tensor& gradient) const {
    const shard::UnitTensors gradients = gradients_of(index_.embedding);
    if (gradients.has(parts_->table))
        ops::embedding_backward(gradient, batch.tokens, gradients[parts_->table],
                                spec_.padding_token);
    if (parts_->positions && gradients.has(*parts_->positions))
        ops::embedding_backward(gradient, batch.positions, gradients[*parts_->positions],
                                std::nullopt);
    if (parts_->table_rows)
        parts_->table_rows->add_row_gradients(gemms_, gradients, batch.tokens, gradient,
                                              spec_.padding_token);
    if (parts_->table_adapter) {
        parts_->table_adapter->add_gradients(gemms_, trained_of_table_->weights(), gradients,
                                             batch.tokens, gradient, spec_.padding_token);
        trained_of_table_->release(shard::Zero::NextUse::none);
    }
    for_own_tables(batch, [&](shard::ParameterId table, int64_t begin, int64_t length) {
        ops::embedding_backward(gradient.narrow(0, begin, length),
                                batch.tokens.narrow(0, begin, length), gradients[table],
                                spec_.padding_token);
    });
}

ProjectionContext Transformer::context_of_layers(const Pass& pass) const {
    return {.gemms = gemms_,
            .dropout_keys =
                pass.has_backward ? pass.batch.dropout_keys.value_or(at::Tensor()) : at::Tensor(),
            .rows = {pass.batch.learner_bounds}};
}

void Transformer::embed_layers(const Pass& pass, const at::Tensor& x) const {
    const LayerEmbeddings& layers = *parts_->layer_embeddings;
    const at::Tensor rows = layers.look_up(weights_of(index_.layer_table), pass.batch.tokens);
    release(index_.layer_table, shard::Zero::NextUse::none);
    const at::Tensor joined =
        layers.join(context_of_layers(pass), weights_of(index_.layer_projection), rows,
                    in_type(branch_type_, x));
    pass.shared->of_layers = {.rows = joined};
    const bool comes_again = pass.has_backward && layers_have_backward_;
    if (comes_again) pass.shared->input = x;
    release(index_.layer_projection,
            comes_again ? shard::Zero::NextUse::backward : shard::Zero::NextUse::none);
}

void Transformer::embed_layers_backward(const Pass& pass, const at::Tensor& gradient) const {
    const LayerEmbeddings& layers = *parts_->layer_embeddings;
    auto& [keys, of_layers, input] = *pass.shared;
    const at::Tensor d_rows = std::move(of_layers->gradient).value();
    of_layers.reset();
    layers.look_up_backward(gradients_of(index_.layer_table), pass.batch.tokens, d_rows,
                            spec_.padding_token);
    reduce(index_.layer_table);
    gradient.add_(layers.join_backward(context_of_layers(pass), weights_of(index_.layer_projection),
                                       gradients_of(index_.layer_projection), d_rows,
                                       in_type(branch_type_, input)));
    release(index_.layer_projection, shard::Zero::NextUse::none);
    reduce(index_.layer_projection);
}

const HeadParameters& Transformer::head_of(const TokenBatch& batch) const {
    const std::vector<int64_t>& bounds = batch.learner_bounds;
    if (parts_->heads.size() == 1) return parts_->heads.front();
    for (size_t learner = 0; learner < parts_->heads.size() && !bounds.empty(); ++learner)
        if (bounds.at(learner) == 0 && bounds.at(learner + 1) == bounds.back())
            return parts_->heads[learner];
    return parts_->head;
}

}  // namespace ringshard::model
