#pragma once

#include <functional>
#include <span>
#include <vector>

#include "layer_input.hpp"
#include "layer_output.hpp"
#include "part.hpp"

namespace ringshard::model {

// Some tokens of a block, of which a feed-forward makes and drops what no policy keeps.
struct TokenChunk {
    int64_t begin;
    int64_t length;
    BlockContext context;
    Saved saved;

    at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, begin, length); }
    // Its part of the pass of all tokens.
    Pass part_of(const Pass& all) { return {context, all.weights, saved}; }
    BackwardPass part_of(const BackwardPass& all) {
        return {{context, all.weights, saved}, all.gradients, of(all.d_result), of(all.gradient)};
    }
};

// The part of a layer in which each token is by itself.
class FeedForward : public Part {
public:
    // Returns true if the policy keeps what is between its products: then all tokens are one chunk.
    virtual bool keeps_inner(config::ActivationPolicy policy) const = 0;

    // Takes chunks through the part, and hands over the rows of the last product of each. More than
    // one: all go through each slice of the experts. Collective over the ranks that share experts.
    using Finish = std::function<void(TokenChunk& chunk, at::Tensor rows)>;
    virtual void forward(std::span<TokenChunk> chunks, const Pass& all, const LayerInput& input,
                         const Finish& finish) const;
    virtual void backward(std::span<TokenChunk> chunks, const BackwardPass& all,
                          const LayerInput& input, const Addition& addition) const;

    virtual void add_costs(StageCosts& costs, const MadeAgain& again) const = 0;

protected:
    virtual bool has_inner(const Saved& saved) const = 0;
    // Makes what the backward pass reads, of the rows x of the input.
    virtual void make_inner(const Pass& pass, const at::Tensor& x) const = 0;
    // The same, and returns the rows of the last product.
    virtual at::Tensor make_rows(const Pass& pass, const at::Tensor& x) const = 0;
    // Ends the forward pass of some tokens, with the rows of the last product.
    virtual void end_forward(const Pass&, const at::Tensor&) const {}
    // From the gradient of the output.
    virtual void chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                                const LayerInput& input) const = 0;
    // Makes what nothing kept.
    void make_again(const Pass& pass, const LayerInput& input, const Output& output) const;
};

}  // namespace ringshard::model
