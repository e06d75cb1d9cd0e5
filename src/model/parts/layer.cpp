#include "layer.hpp"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <optional>

namespace ringshard::model {

using config::ActivationPolicy;

std::vector<const Projection*> Layer::projections() const {
    std::vector<const Projection*> all = part().projections();
    for (const Projection* projection : addition_->output().projections())
        all.push_back(projection);
    return all;
}

void MixerLayer::mix(const Pass& pass) const {
    if (!mixer_->is_projected(pass.saved)) mixer_->project(pass, input_->forward(pass));
    mixer_->mix(pass);
}

at::Tensor MixerLayer::forward(const Pass& pass) const {
    mix(pass);
    return addition_->forward(pass, mixer_->mixed(pass), {});
}

void MixerLayer::backward(const BackwardPass& pass) const {
    mix(pass);
    const Output& output = addition_->output();
    if (output.lacks_rows(pass.saved)) output.make_rows(pass, mixer_->mixed(pass));
    mixer_->backward(pass, addition_->backward(pass), *input_);
}

void MixerLayer::add_costs(StageCosts& costs, bool makes_result_again) const {
    input_->add_costs(costs, mixer_->is_projected_again(costs.policy),
                      RowsInBackward::made_again_alone);
    mixer_->add_costs(costs, makes_result_again);
    costs.rows_of_host += passes_of_host * width_;
    addition_->add_costs(costs, makes_result_again);
}

template <class Work>
void FeedForwardLayer::for_chunks(const Pass& pass, ActivationPolicy kept_in_chunks,
                                  Work work) const {
    const int64_t tokens = pass.saved[stream_].size(0);
    if (part_->keeps_inner(pass.context.policy)) {
        TokenChunk all{0, tokens, pass.context, std::move(pass.saved)};
        work(std::span(&all, 1));
        pass.saved = std::move(all.saved);
        return;
    }
    // Ranks that share experts take equally many chunks, of which the last ones may be empty.
    const int64_t most = std::max(tokens, pass.context.experts.most_tokens);
    const int64_t step = pass.context.mlp_chunk;
    RowNorms norms;
    std::vector<TokenChunk> together;
    for (int64_t first = 0; first < most; first += step) {
        const int64_t begin = std::min(first, tokens);
        const int64_t length = std::clamp<int64_t>(tokens - first, 0, step);
        TokenChunk chunk{begin, length,
                         pass.context.of_tokens(begin, length, std::min(most - first, step), norms),
                         Saved(pass.saved.tensors().size())};
        chunk.context.policy = kept_in_chunks;
        chunk.saved[stream_] = chunk.of(pass.saved[stream_]);
        for (const SavedSlot& slot : input_->stream())
            if (pass.saved.has(slot)) chunk.saved[slot] = chunk.of(pass.saved[slot]);
        if (pass.context.slices.sets.empty())
            work(std::span(&chunk, 1));
        else
            together.push_back(std::move(chunk));
    }
    if (!pass.context.slices.sets.empty()) work(std::span(together));
}

at::Tensor FeedForwardLayer::forward(const Pass& pass) const {
    std::optional<at::Tensor> result;
    const bool is_whole = part_->keeps_inner(pass.context.policy);
    const auto finish = [&](TokenChunk& chunk, at::Tensor rows) {
        const Pass of_chunk = chunk.part_of(pass);
        if (is_whole) {
            result = addition_->forward(of_chunk, std::move(rows), {});
            return;
        }
        if (!result) result = at::empty_like(pass.saved[stream_]);
        addition_->forward(of_chunk, std::move(rows), chunk.of(*result));
        chunk.saved = {};
    };
    for_chunks(pass, pass.context.policy, [&](std::span<TokenChunk> chunks) {
        part_->forward(chunks, pass, *input_, finish);
    });
    return result ? *result : at::empty_like(pass.saved[stream_]);  // no tokens
}

void FeedForwardLayer::backward(const BackwardPass& pass) const {
    for_chunks(pass, ActivationPolicy::everything, [&](std::span<TokenChunk> chunks) {
        part_->backward(chunks, pass, *input_, *addition_);
    });
}

void FeedForwardLayer::add_costs(StageCosts& costs, bool) const {
    const bool is_made_again = !part_->keeps_inner(costs.policy);
    input_->add_costs(
        costs, is_made_again,
        is_made_again ? RowsInBackward::made_with_the_part : RowsInBackward::made_again_alone);
    part_->add_costs(costs, {is_made_again, is_made_again && addition_->output().reads_rows()});
    addition_->add_costs(costs, false);
}

}  // namespace ringshard::model
