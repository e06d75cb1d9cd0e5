#include "ringshard/ops/plain_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringshard::ops {

namespace {

// [n, t, heads, d] as fp32 [n, g, heads / g, t, d].
at::Tensor by_key_head(const at::Tensor& rows, int64_t key_heads) {
    return rows.to(at::kFloat).transpose(1, 2).unflatten(1, {key_heads, -1});
}

// Queries that are worked on at a time: their scores take a quarter of a gigabyte.
int64_t queries_of_block(const PlainAttention& input) {
    constexpr int64_t most_scores = int64_t{1} << 26;
    const int64_t scores_of_query = input.q.size(0) * input.q.size(2) * input.k.size(1);
    return std::clamp<int64_t>(most_scores / std::max<int64_t>(1, scores_of_query), 16, 1024);
}

// Some neighbouring queries, and the keys that one of them sees.
struct Block {
    int64_t begin;
    int64_t length;
    int64_t first_key;
    int64_t num_keys;

    at::Tensor queries(const at::Tensor& rows) const { return rows.narrow(-2, begin, length); }
    at::Tensor keys(const at::Tensor& rows) const { return rows.narrow(-2, first_key, num_keys); }
};

template <class Work>
void for_row_blocks(const PlainAttention& input, Work work) {
    const int64_t queries = input.q.size(1);
    const int64_t step = queries_of_block(input);
    for (int64_t begin = 0; begin < queries; begin += step) {
        const int64_t length = std::min(step, queries - begin);
        const int64_t first_key = std::max<int64_t>(0, begin - input.band.back);
        const int64_t end = std::min(input.k.size(1), begin + length + input.band.ahead);
        work(Block{begin, length, first_key, end - first_key});
    }
}

double scale_of(const PlainAttention& input) { return input.form.scale_of(input.q.size(3)); }

// [n, g, r, queries, keys], minus infinity where a query does not see a key. slope: of the cap in
// each score, if it is asked for and there is a cap.
at::Tensor scores_of(const PlainAttention& input, const Block& block, const at::Tensor& q,
                     const at::Tensor& k, at::Tensor* slope = nullptr) {
    const double cap = input.form.cap;
    at::Tensor scores =
        at::matmul(block.queries(q), block.keys(k).transpose(-1, -2)).mul_(scale_of(input));
    if (cap > 0) {
        scores.div_(cap).tanh_();
        if (slope != nullptr) *slope = 1 - scores.square();
        scores.mul_(cap);
    }
    const auto ones = [&] {
        return at::ones({block.length, block.num_keys}, q.options().dtype(at::kBool));
    };
    const auto hide = [&](const at::Tensor& unseen) {
        scores.masked_fill_(unseen, -std::numeric_limits<double>::infinity());
    };
    // From the first query and the first key of the block.
    const int64_t behind = block.begin - block.first_key + input.band.ahead + 1;
    const int64_t before = block.begin - block.first_key - input.band.back - 1;
    if (behind < block.num_keys) hide(ones().triu_(behind));
    if (before + block.length > 0) hide(ones().tril_(before));
    return scores;
}

}  // namespace

SeenKeys plain_attention(const PlainAttention& input) {
    const int64_t g = input.k.size(2);
    const at::Tensor q = by_key_head(input.q, g);
    const at::Tensor k = by_key_head(input.k, g);
    const at::Tensor v = by_key_head(input.v, g);
    const auto sizes = input.q.sizes();
    SeenKeys seen{at::empty(sizes, input.q.options()),
                  at::empty(sizes.slice(0, 3), input.q.options().dtype(at::kFloat))};
    const at::Tensor out = seen.out.transpose(1, 2).unflatten(1, {g, -1});
    const at::Tensor lse = seen.lse.transpose(1, 2).unflatten(1, {g, -1});
    for_row_blocks(input, [&](const Block& block) {
        at::Tensor weights = scores_of(input, block, q, k);
        const at::Tensor sums = at::logsumexp(weights, {-1});
        weights.sub_(sums.unsqueeze(-1)).exp_();
        block.queries(out).copy_(at::matmul(weights, block.keys(v)));
        lse.narrow(-1, block.begin, block.length).copy_(sums);
    });
    return seen;
}

PlainGradients plain_attention_backward(const PlainAttention& input, const at::Tensor& d_out,
                                        const SeenKeys& whole) {
    const int64_t g = input.k.size(2);
    const double scale = scale_of(input);
    const at::Tensor q = by_key_head(input.q, g);
    const at::Tensor k = by_key_head(input.k, g);
    const at::Tensor v = by_key_head(input.v, g);
    const at::Tensor d = by_key_head(d_out, g);
    const at::Tensor lse = whole.lse.transpose(1, 2).unflatten(1, {g, -1}).unsqueeze(-1);
    // The gradient of a softmax subtracts the mean that all its weights have in common.
    const at::Tensor common = (d * by_key_head(whole.out, g)).sum(-1, true);

    const auto fp32 = input.q.options().dtype(at::kFloat);
    const PlainGradients gradients{at::empty(input.q.sizes(), fp32),
                                   at::zeros(input.k.sizes(), fp32),
                                   at::zeros(input.v.sizes(), fp32)};
    const at::Tensor dq = gradients.dq.transpose(1, 2).unflatten(1, {g, -1});
    const at::Tensor dk = gradients.dk.transpose(1, 2);  // summed over the queries' heads
    const at::Tensor dv = gradients.dv.transpose(1, 2);
    for_row_blocks(input, [&](const Block& block) {
        at::Tensor slope;
        const at::Tensor weights =
            scores_of(input, block, q, k, &slope).sub_(block.queries(lse)).exp_();
        const at::Tensor d_block = block.queries(d);
        block.keys(dv).add_(at::matmul(weights.transpose(-1, -2), d_block).sum(2));
        const at::Tensor d_scores = at::matmul(d_block, block.keys(v).transpose(-1, -2))
                                        .sub_(block.queries(common))
                                        .mul_(weights)
                                        .mul_(scale);
        if (slope.defined()) d_scores.mul_(slope);
        block.queries(dq).copy_(at::matmul(d_scores, block.keys(k)));
        block.keys(dk).add_(at::matmul(d_scores.transpose(-1, -2), block.queries(q)).sum(2));
    });
    return gradients;
}

}  // namespace ringshard::ops
