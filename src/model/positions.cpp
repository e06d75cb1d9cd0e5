#include "positions.hpp"

#include <algorithm>

namespace ringshard::model {

namespace {

// Blocks that share a rope have heads of one width.
std::vector<int64_t> head_dims_of_ropes(const ModelSpec& spec) {
    std::vector<int64_t> head_dims(spec.ropes.size(), spec.heads().head_dim);
    for (const BlockSpec& block : spec.blocks)
        for (const auto& mixer : block.mixers)
            if (const auto* const attention = std::get_if<AttentionSpec>(&mixer.part))
                if (attention->rope) head_dims[*attention->rope] = attention->heads.head_dim;
    return head_dims;
}

}  // namespace

PositionTables::PositionTables(const ModelSpec& spec, c10::Device device)
    : query_scale_(spec.query_scale) {
    const bool attends = std::ranges::any_of(
        spec.masks(), [](const attention::Mask& mask) { return !mask.through_state; });
    if (!attends) return;  // there are no heads to rotate
    ropes_ = spec.ropes;
    head_dims_ = head_dims_of_ropes(spec);
    for (size_t number = 0; number < ropes_.size(); ++number) {
        const RopeSpec& rope = ropes_[number];
        const int64_t head_dim = head_dims_[number];
        frequencies_.push_back(inverse_frequencies(rope, head_dim).to(device));
        auto& of_long = long_frequencies_.emplace_back();
        if (rope.kind == RopeKind::longrope)
            of_long = inverse_frequencies(rope, head_dim, Document::is_long).to(device);
    }
}

ops::RopeTable PositionTables::table(size_t rope, const TokenBatch& batch) const {
    const RopeSpec& spec = ropes_[rope];
    const auto make = [&](const at::Tensor& frequencies) {
        return ops::make_rope_table(batch.positions, frequencies, spec.attention_scaling);
    };
    ops::RopeTable table = make(frequencies_[rope]);
    if (long_frequencies_[rope]) {
        const ops::RopeTable of_long = make(*long_frequencies_[rope]);
        // Factors of 1 and 0 keep every bit, and the planner's tensors know these operators.
        const at::Tensor is_long =
            batch.document_lengths.gt(spec.original_positions).to(at::kFloat).unsqueeze(1);
        const at::Tensor is_short = 1 - is_long;
        table.cosine.mul_(is_short).add_(of_long.cosine.mul_(is_long));
        table.sine.mul_(is_short).add_(of_long.sine.mul_(is_long));
    }
    table.head_dim = head_dims_[rope];
    table.is_interleaved = spec.is_interleaved;
    return table;
}

Positions PositionTables::of(const TokenBatch& batch) const {
    Positions positions;
    for (size_t rope = 0; rope < ropes_.size(); ++rope)
        positions.ropes.push_back(table(rope, batch));
    if (query_scale_)
        positions.query_scale = batch.positions.to(at::kFloat)
                                    .div_(query_scale_->original_positions)
                                    .floor_()
                                    .log1p_()
                                    .mul_(query_scale_->beta)
                                    .add_(1)
                                    .unsqueeze(1);
    return positions;
}

}  // namespace ringshard::model
