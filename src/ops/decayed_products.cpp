#include "decayed_products.hpp"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

namespace ringshard::ops {

namespace {

at::Tensor transposed(const at::Tensor& x) { return x.transpose(-1, -2); }

// The sum of each token and those after it: the gradient of g from that of G.
at::Tensor sums_from_here_on(const at::Tensor& x) {
    const at::Tensor sums = x.cumsum(-2);
    return (sums.narrow(-2, sums.size(-2) - 1, 1) - sums).add_(x);
}

// One decay for all elements: factors D_ij = e^(G_i - G_j) of plain products.
class OfOneDecay : public DecayedProducts {
public:
    explicit OfOneDecay(const at::Tensor& sums)
        : decay_((sums - transposed(sums)).to(at::kFloat).tril_().exp_().tril_()) {}

    at::Tensor of(const at::Tensor& x, const at::Tensor& k) const override {
        return at::matmul(x, transposed(k)) * decay_;
    }

    // The gradient of G is what comes to the products of a row, less what comes to those of a
    // column; in double precision, since most of it cancels in sums over tokens.
    Gradient backward(const at::Tensor& d, const at::Tensor& products, const at::Tensor& x,
                      const at::Tensor& k) const override {
        const at::Tensor weighted = d * products;
        at::Tensor sums = weighted.sum({-1}, true, at::kDouble)
                              .sub_(transposed(weighted.sum({-2}, true, at::kDouble)));
        const at::Tensor plain = sum_of_repeats(d * decay_);
        return {at::matmul(plain, k), at::matmul(transposed(plain), x), std::move(sums)};
    }
    at::Tensor decays_backward(const at::Tensor& of_products,
                               const at::Tensor& d_sums) const override {
        return sums_from_here_on(d_sums.add_(of_products));
    }

private:
    at::Tensor decay_;
};

// A decay for each element. No factor of e^(G_i) e^(-G_j) may overflow: a chunk is halved again and
// again, and the tokens of a second half meet those of the first with factors e^(G_i - G_m) and
// e^(G_m - G_j), m the first token of the second half. Both are at most 1.
class OfDecaysByRow : public DecayedProducts {
public:
    explicit OfDecaysByRow(const at::Tensor& sums) {
        for (int64_t half = chunk_tokens / 2; half > 0; half /= 2) {
            const at::Tensor middle = later(sums, half).narrow(-2, 0, 1);
            levels_.push_back({half, (later(sums, half) - middle).to(at::kFloat).exp_(),
                               (middle - earlier(sums, half)).to(at::kFloat).exp_()});
        }
    }

    at::Tensor of(const at::Tensor& x, const at::Tensor& k) const override {
        const auto n = levels_.front().later.sizes();
        at::Tensor all = at::zeros({n[0], n[1], n[2], chunk_tokens, chunk_tokens}, x.options());
        for (const Level& level : levels_)
            blocks(all, level.half)
                .copy_(at::matmul(later(x, level.half) * level.later,
                                  transposed(earlier(k, level.half) * level.earlier)));
        all.diagonal(0, -2, -1).copy_((x * k).sum({-1}));
        return all;
    }

    // A product of i and j has in it the decays of the tokens from j + 1 to i: those of a second
    // half up to i, and those of the first one behind j.
    Gradient backward(const at::Tensor& d, const at::Tensor& /*products*/, const at::Tensor& x,
                      const at::Tensor& k) const override {
        const auto sizes = levels_.front().later.sizes();
        const std::vector<int64_t> rows{sizes[0], sizes[1], sizes[2], chunk_tokens, x.size(-1)};
        const at::Tensor dx = at::zeros(rows, x.options());
        const at::Tensor dk = at::zeros_like(dx);
        at::Tensor d_decay = at::zeros_like(dx);
        for (const Level& level : levels_) {
            const auto [half, of_later, of_earlier] = level;
            const at::Tensor of_block = blocks(d, half);
            const at::Tensor first = earlier(k, half);
            const at::Tensor second = later(x, half);
            const at::Tensor d_second = at::matmul(of_block, first * of_earlier).mul_(of_later);
            const at::Tensor d_first =
                at::matmul(transposed(of_block), second * of_later).mul_(of_earlier);
            later(dx, half).add_(d_second);
            earlier(dk, half).add_(d_first);
            later(d_decay, half).add_(sums_from_here_on(d_second * second));
            const at::Tensor along = d_first * first;
            earlier(d_decay, half).add_(along.cumsum(-2).sub_(along));
        }
        const at::Tensor of_itself = d.diagonal(0, -2, -1).unsqueeze(-1);
        return {sum_of_repeats(dx.add_(of_itself * k)), sum_of_repeats(dk.add_(of_itself * x)),
                std::move(d_decay)};
    }
    at::Tensor decays_backward(const at::Tensor& of_products,
                               const at::Tensor& d_sums) const override {
        return of_products.add_(sums_from_here_on(d_sums));
    }

private:
    struct Level {
        int64_t half;
        at::Tensor later;    // [n, kh, r, pairs of halves, half, dk]: factors of second halves
        at::Tensor earlier;  // likewise of first ones
    };
    // Views [..., pairs of halves, half, columns] of rows [..., 64, columns].
    static at::Tensor earlier(const at::Tensor& rows, int64_t half) {
        return rows.unflatten(-2, {-1, 2, half}).select(-3, 0);
    }
    static at::Tensor later(const at::Tensor& rows, int64_t half) {
        return rows.unflatten(-2, {-1, 2, half}).select(-3, 1);
    }
    // A view [..., pairs of halves, half, half] of products [..., 64, 64]: those of rows of second
    // halves with columns of the first ones beside them.
    static at::Tensor blocks(const at::Tensor& products, int64_t half) {
        const int64_t pairs = chunk_tokens / (2 * half);
        return products.unflatten(-1, {pairs, 2, half})
            .unflatten(-4, {pairs, 2, half})
            .select(-2, 0)
            .select(-4, 1)
            .diagonal(0, -4, -2)
            .movedim(-1, -3);
    }

    std::vector<Level> levels_;  // from the longest halves to single tokens
};

}  // namespace

std::unique_ptr<const DecayedProducts> decayed_products(const at::Tensor& sums, StateRule rule) {
    if (rule == StateRule::delta_by_row) return std::make_unique<OfDecaysByRow>(sums);
    return std::make_unique<OfOneDecay>(sums);
}

}  // namespace ringshard::ops
