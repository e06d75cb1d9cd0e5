#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::ops {

// Products of the tokens of a chunk whose columns decay each by itself: M_ij = sum over columns c
// of a_ic b_jc e^(G_ic - G_jc) for i >= j, and 0 above the diagonal. No exponent is above 0,
// however fast a column decays: tokens of different blocks decay to the first token of the later
// block and from there on.
class ChannelDecay {
public:
    // sums [..., 64, dk]: G, falling from token to token.
    explicit ChannelDecay(at::Tensor sums) : sums_(std::move(sums)) {}

    // a, b [..., 64, dk] -> [..., 64, 64]
    at::Tensor products(const at::Tensor& a, const at::Tensor& b) const;
    // d_products is read at and below the diagonal. The gradient of G is a da - b db.
    struct Gradients {
        at::Tensor da;
        at::Tensor db;
    };
    Gradients backward(const at::Tensor& d_products, const at::Tensor& a,
                       const at::Tensor& b) const;

private:
    // The decays of the tokens of a block [..., 16, 16, dk], of its tokens from the first of them,
    // and to that from all tokens before the block.
    struct Block {
        Block(const at::Tensor& sums, int64_t begin);
        at::Tensor inner;
        at::Tensor grown;
        at::Tensor before;  // undefined of the first block
    };

    at::Tensor sums_;
};

}  // namespace ringshard::ops
