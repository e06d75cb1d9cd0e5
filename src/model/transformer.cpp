#include "ringshard/model/transformer.hpp"

#include "block.hpp"
#include "head.hpp"
#include "ringshard/ops/embedding.hpp"

namespace ringshard::model {

using NextUse = shard::Zero::NextUse;

// What the forward pass leaves for the backward pass.
struct Transformer::Saved {
    ops::RopeTable rope;
    std::vector<BlockActivations> blocks;
};

Transformer::Transformer(ModelSpec spec, shard::Zero& zero, const mesh::Mesh& mesh,
                         config::ActivationPolicy policy, const ops::LossForm& loss)
    : spec_(std::move(spec)),
      index_(spec_),
      zero_(zero),
      attention_(spec_.heads, mesh.ring(), mesh.ulysses()),
      policy_(policy),
      loss_(loss) {
    inverse_frequencies_ = inverse_frequencies(spec_.rope, spec_.heads.head_dim).to(mesh.device());
}

// The backward pass reads no table of embeddings.
std::vector<size_t> Transformer::order_of_units(bool with_backward) const {
    std::vector<size_t> order{index_.embedding};
    for (size_t block = 0; block < num_blocks(); ++block) order.push_back(UnitIndex::block(block));
    order.push_back(index_.head);
    if (with_backward)
        for (size_t block = num_blocks(); block-- > 0;) order.push_back(UnitIndex::block(block));
    return order;
}

at::Tensor Transformer::forward(const TokenBatch& batch, Saved* saved) const {
    const ops::RopeTable rope =
        ops::make_rope_table(batch.positions, inverse_frequencies_, spec_.rope.attention_scaling);
    const NextUse next_use = saved == nullptr ? NextUse::none : NextUse::backward;
    const bool is_tied = index_.head == index_.embedding;
    zero_.begin_pass(order_of_units(saved != nullptr));

    const shard::FlatUnit& embedding = zero_.units()[index_.embedding];
    const at::Tensor table = embedding.view(zero_.weights(index_.embedding), EmbeddingGroup::table);
    at::Tensor x = ops::embedding(batch.tokens, table);
    // A tied table is the head's too.
    zero_.release(index_.embedding, is_tied ? next_use : NextUse::none);

    const BlockContext context{spec_, attention_, batch.plan, rope, policy_};
    for (size_t block = 0; block < num_blocks(); ++block) {
        const size_t unit = UnitIndex::block(block);
        const BlockViews weights(zero_.units()[unit], zero_.weights(unit), spec_);
        BlockActivations activations;
        activations.input = x;
        x = block_forward(context, weights, activations);
        zero_.release(unit, next_use);
        if (saved != nullptr) saved->blocks.push_back(std::move(activations));
    }
    if (saved != nullptr) saved->rope = rope;
    return x;
}

void Transformer::backward(const TokenBatch& batch, const at::Tensor& gradient,
                           Saved& saved) const {
    const BlockContext context{spec_, attention_, batch.plan, saved.rope, policy_};
    for (size_t block = num_blocks(); block-- > 0;) {
        const size_t unit = UnitIndex::block(block);
        const BlockViews weights(zero_.units()[unit], zero_.weights(unit), spec_);
        const BlockViews gradients(zero_.units()[unit], zero_.gradients(unit), spec_);
        block_backward(context, weights, gradients, gradient, std::move(saved.blocks.back()));
        saved.blocks.pop_back();
        zero_.release(unit, NextUse::none);
        zero_.reduce(unit);
    }
    const shard::FlatUnit& embedding = zero_.units()[index_.embedding];
    ops::embedding_backward(
        gradient, batch.tokens,
        embedding.view(zero_.gradients(index_.embedding), EmbeddingGroup::table),
        spec_.padding_token);
    zero_.reduce(index_.embedding);
}

ops::TokenSums Transformer::forward_backward(const TokenBatch& batch, double gradient_scale) const {
    Saved saved;
    const at::Tensor x = forward(batch, &saved);

    const shard::FlatUnit& head = zero_.units()[index_.head];
    const HeadViews weights(head, zero_.weights(index_.head));
    const HeadViews gradients(head, zero_.gradients(index_.head));
    const HeadResult result =
        head_forward_backward(spec_, weights, gradients, x, batch.targets, gradient_scale, loss_);
    zero_.release(index_.head, NextUse::none);
    if (index_.head != index_.embedding)
        zero_.reduce(index_.head);  // a tied head's gradient goes with the embedding's

    backward(batch, result.d_x, saved);
    return result.sums;
}

ops::TokenSums Transformer::evaluate(const TokenBatch& batch) const {
    const at::Tensor x = forward(batch, nullptr);
    const HeadViews weights(zero_.units()[index_.head], zero_.weights(index_.head));
    const ops::TokenSums sums = head_forward(spec_, weights, x, batch.targets, loss_);
    zero_.release(index_.head, NextUse::none);
    return sums;
}

at::Tensor Transformer::logits(const TokenBatch& batch) const {
    const at::Tensor x = forward(batch, nullptr);
    const HeadViews weights(zero_.units()[index_.head], zero_.weights(index_.head));
    at::Tensor logits = head_logits(spec_, weights, x);
    zero_.release(index_.head, NextUse::none);
    return logits;
}

}  // namespace ringshard::model
