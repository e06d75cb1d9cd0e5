#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ringshard/ops/delta_rule.hpp"

namespace ringshard::ops {

inline constexpr int64_t chunk_tokens = 64;

// The products of rows within a chunk, each decayed from one token to the other:
//     <x, k>_ij = sum over the elements of x_i k_j e^(G_i - G_j) for i >= j, else 0,
// with sums G that fall from token to token. x and k [n, kh, r or 1, 64, dk].
class DecayedProducts {
public:
    virtual ~DecayedProducts() = default;

    virtual at::Tensor of(const at::Tensor& x, const at::Tensor& k) const = 0;

    struct Gradient {
        at::Tensor x;       // [n, kh, 1, 64, dk]: summed over the value heads of a key head
        at::Tensor k;       // likewise
        at::Tensor decays;  // as G, for decays_backward()
    };
    // d: the gradient of `products`, which are <x, k>.
    virtual Gradient backward(const at::Tensor& d, const at::Tensor& products, const at::Tensor& x,
                              const at::Tensor& k) const = 0;
    // Returns the gradient of g, from the sum of Gradient::decays of all products, and that of G
    // elsewhere in double precision: most of it cancels in sums over tokens. Writes over both.
    virtual at::Tensor decays_backward(const at::Tensor& of_products,
                                       const at::Tensor& d_sums) const = 0;
};

// sums: G [n, kh, r, 64, 1], or with dk of them where each row of a state has its decay, in double
// precision.
std::unique_ptr<const DecayedProducts> decayed_products(const at::Tensor& sums, StateRule rule);

// Over the value heads of a key head.
inline at::Tensor sum_of_repeats(const at::Tensor& x) {
    return x.size(2) == 1 ? x : x.sum({2}, true);
}

}  // namespace ringshard::ops
