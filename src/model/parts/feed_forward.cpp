#include "feed_forward.hpp"

namespace ringshard::model {

void FeedForward::forward(std::span<TokenChunk> chunks, const Pass& all, const LayerInput& input,
                          const Finish& finish) const {
    for (TokenChunk& chunk : chunks) {
        const Pass pass = chunk.part_of(all);
        at::Tensor rows = make_rows(pass, input.forward(pass));
        end_forward(pass, rows);
        finish(chunk, std::move(rows));
    }
}

void FeedForward::backward(std::span<TokenChunk> chunks, const BackwardPass& all,
                           const LayerInput& input, const Addition& addition) const {
    for (TokenChunk& chunk : chunks) {
        const BackwardPass pass = chunk.part_of(all);
        make_again(pass, input, addition.output());
        chunk_backward(pass, addition.backward(pass), input);
    }
}

void FeedForward::make_again(const Pass& pass, const LayerInput& input,
                             const Output& output) const {
    if (has_inner(pass.saved)) return;
    const at::Tensor x = input.forward(pass);
    if (output.reads_rows())
        output.make_rows(pass, make_rows(pass, x));
    else
        make_inner(pass, x);
}

}  // namespace ringshard::model
