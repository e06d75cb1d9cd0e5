#include "channel_decay.hpp"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "delta_chunks.hpp"

namespace ringshard::ops {

namespace {

constexpr int64_t block_tokens = 16;

at::Tensor of_block(const at::Tensor& rows, int64_t begin) {
    return rows.narrow(-2, begin, block_tokens);
}
at::Tensor before_block(const at::Tensor& rows, int64_t begin) { return rows.narrow(-2, 0, begin); }

at::Tensor decays(const at::Tensor& exponents) {
    return exponents.to(at::kFloat).clamp_max_(0).exp_();
}

}  // namespace

ChannelDecay::Block::Block(const at::Tensor& sums, int64_t begin) {
    const at::Tensor own = of_block(sums, begin);
    const at::Tensor first = own.narrow(-2, 0, 1);
    inner = decays(own.unsqueeze(-2) - own.unsqueeze(-3));
    grown = decays(own - first);
    if (begin > 0) before = decays(first - before_block(sums, begin));
}

at::Tensor ChannelDecay::products(const at::Tensor& a, const at::Tensor& b) const {
    std::vector<int64_t> sizes = sums_.sizes().vec();
    sizes.back() = chunk_tokens;
    at::Tensor all = at::zeros(sizes, a.options());
    for (int64_t begin = 0; begin < chunk_tokens; begin += block_tokens) {
        const Block block(sums_, begin);
        const at::Tensor rows = of_block(all, begin);
        const at::Tensor own = of_block(a, begin);
        rows.narrow(-1, begin, block_tokens)
            .copy_((block.inner * own.unsqueeze(-2))
                       .mul_(of_block(b, begin).unsqueeze(-3))
                       .sum({-1})
                       .tril_());
        if (block.before.defined())
            rows.narrow(-1, 0, begin)
                .copy_(at::matmul(own * block.grown,
                                  (before_block(b, begin) * block.before).transpose(-1, -2)));
    }
    return all;
}

ChannelDecay::Gradients ChannelDecay::backward(const at::Tensor& d_products, const at::Tensor& a,
                                               const at::Tensor& b) const {
    const Gradients all{at::zeros(sums_.sizes(), a.options()),
                        at::zeros(sums_.sizes(), a.options())};
    for (int64_t begin = 0; begin < chunk_tokens; begin += block_tokens) {
        const Block block(sums_, begin);
        const at::Tensor rows = of_block(d_products, begin);
        const at::Tensor own = of_block(a, begin);
        const at::Tensor d_inner =
            rows.narrow(-1, begin, block_tokens).tril().unsqueeze(-1) * block.inner;
        of_block(all.da, begin).add_((d_inner * of_block(b, begin).unsqueeze(-3)).sum({-2}));
        of_block(all.db, begin).add_((d_inner * own.unsqueeze(-2)).sum({-3}));
        if (!block.before.defined()) continue;
        const at::Tensor earlier = rows.narrow(-1, 0, begin);
        of_block(all.da, begin)
            .add_(at::matmul(earlier, before_block(b, begin) * block.before).mul_(block.grown));
        before_block(all.db, begin)
            .add_(at::matmul(earlier.transpose(-1, -2), own * block.grown).mul_(block.before));
    }
    return all;
}

}  // namespace ringshard::ops
