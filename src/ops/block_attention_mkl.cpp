#include "block_attention_mkl.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

// Queries and keys of a block: its scores, their gradients and both in the compute type are 192 to
// 256 KiB, and half of the products on the diagonal are in vain.
constexpr int64_t block = 128;

// One head of one document in a view [n, t, heads, d].
template <class T>
Block<T> head_of(const at::Tensor& rows, int64_t document, int64_t head) {
    return {static_cast<T*>(rows.data_ptr()) + document * rows.stride(0) + head * rows.stride(2),
            rows.stride(1)};
}

RINGSHARD_SIMD float dot_of_rows(const bf16* __restrict a, const bf16* __restrict b,
                                 int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += load(a[i]) * load(b[i]);
    return sum;
}

// into = scale * from
template <class To>
RINGSHARD_SIMD void scale_row(To* __restrict into, const float* __restrict from, float scale,
                              int64_t width) {
    for (int64_t i = 0; i < width; ++i) store(into[i], scale * from[i]);
}

// The loops over a row end at a whole number of vectors, since what is left over is done one by
// one: what lies behind the visible scores is left out by a comparison.
constexpr int64_t vector = 16;
int32_t end_of_vectors(int64_t visible, int64_t width) {
    return static_cast<int32_t>(std::min(width, (visible + vector - 1) / vector * vector));
}
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// With p = e^(scale * score - lse), the gradient of a score is scale * p * (d_p - delta).
RINGSHARD_SIMD void score_gradient_row(bf16* weights, bf16* d_scores, const float* scores,
                                       const float* d_weights, float scale, float lse, float delta,
                                       int32_t visible, int32_t end, int64_t width) {
#pragma omp simd
    for (int32_t i = 0; i < end; ++i) {
        const float score = i < visible ? scores[i] : minus_infinity;
        const float d_weight = i < visible ? d_weights[i] : 0.0F;
        const float weight = exponential_of_small(scale * score - lse);
        store(weights[i], weight);
        store(d_scores[i], scale * weight * (d_weight - delta));
    }
    for (int64_t i = end; i < width; ++i) {
        store(weights[i], 0.0F);
        store(d_scores[i], 0.0F);
    }
}

// Memory of one thread for blocks.
struct Scratch {
    Scratch(int64_t rows, int64_t width)
        : scores(static_cast<size_t>(rows * width)),
          d_weights(scores.size()),
          weights(scores.size()),
          d_scores(scores.size()) {}

    std::vector<float> scores;
    std::vector<float> d_weights;
    std::vector<bf16> weights;
    std::vector<bf16> d_scores;
};

// How many of the keys from `first_key` on the query sees.
int64_t visible_keys(bool diagonal, int64_t query, int64_t first_key, int64_t num_keys) {
    return diagonal ? std::clamp<int64_t>(query + 1 - first_key, 0, num_keys) : num_keys;
}

struct ProductSizes {
    explicit ProductSizes(const AttentionInput& input)
        : documents(input.q.size(0)),
          queries(input.q.size(1)),
          keys(input.k.size(1)),
          query_heads(input.q.size(2)),
          key_heads(input.k.size(2)),
          width(input.q.size(3)),
          scale(static_cast<float>(input.form.scale_of(width))) {}
    int64_t documents, queries, keys, query_heads, key_heads, width;
    float scale;
};

// Where the gradient of some rows is added up in fp32: in place, or beside it.
template <class To>
class Sum {
public:
    Sum(Block<To> into, bool adds, int64_t rows, int64_t width, std::vector<float>& beside)
        : into_(into), rows_(rows), width_(width) {
        if constexpr (std::is_same_v<To, float>) {
            sum_ = into;
            if (adds) return;
            for (int64_t r = 0; r < rows; ++r) std::fill_n(into.row(r).data, width, 0.0F);
        } else {
            beside.assign(static_cast<size_t>(rows * width), 0.0F);
            sum_ = {beside.data(), width};
        }
    }
    Block<float> row(int64_t r) const { return sum_.row(r); }
    void finish() const {
        if constexpr (!std::is_same_v<To, float>)
            for (int64_t r = 0; r < rows_; ++r)
                scale_row(into_.row(r).data, sum_.row(r).data, 1.0F, width_);
    }

private:
    Block<To> into_;
    Block<float> sum_{};
    int64_t rows_;
    int64_t width_;
};

// Everything about one head of one document that the backward pass reads.
struct HeadInput {
    Block<const bf16> q, k, v, d_out, out;
    Block<const float> lse;
};

// Adds to dk and dv, and writes dq or adds to it.
template <class To>
void backward_head(const ProductSizes& s, bool diagonal, const HeadInput& in, Block<To> dq,
                   bool adds, const Sum<To>& dk, const Sum<To>& dv, Scratch& scratch) {
    std::vector<float> dq_beside;
    std::vector<float> deltas(static_cast<size_t>(block));
    for (int64_t first = 0; first < s.queries; first += block) {
        const int64_t count = std::min(block, s.queries - first);
        for (int64_t r = 0; r < count; ++r)
            deltas[static_cast<size_t>(r)] =
                dot_of_rows(in.d_out.row(first + r).data, in.out.row(first + r).data, s.width);
        const Sum<To> dq_sum(dq.row(first), adds, count, s.width, dq_beside);
        const int64_t end = diagonal ? std::min(s.keys, first + count) : s.keys;
        for (int64_t key = 0; key < end; key += block) {
            const int64_t keys = std::min(block, end - key);
            float* const scores = scratch.scores.data();
            float* const d_weights = scratch.d_weights.data();
            rows_times_rows({count, keys, s.width}, in.q.row(first), in.k.row(key), 0,
                            {scores, keys});
            rows_times_rows({count, keys, s.width}, in.d_out.row(first), in.v.row(key), 0,
                            {d_weights, keys});
            for (int64_t r = 0; r < count; ++r) {
                const int64_t visible = visible_keys(diagonal, first + r, key, keys);
                score_gradient_row(scratch.weights.data() + r * keys,
                                   scratch.d_scores.data() + r * keys, scores + r * keys,
                                   d_weights + r * keys, s.scale, *in.lse.row(first + r).data,
                                   deltas[static_cast<size_t>(r)], static_cast<int32_t>(visible),
                                   end_of_vectors(visible, keys), keys);
            }
            const Block<const bf16> weights{scratch.weights.data(), keys};
            const Block<const bf16> d_scores{scratch.d_scores.data(), keys};
            columns_times_columns({keys, s.width, count}, weights, in.d_out.row(first), 1,
                                  dv.row(key));
            columns_times_columns({keys, s.width, count}, d_scores, in.q.row(first), 1,
                                  dk.row(key));
            rows_times_columns({count, s.width, keys}, d_scores, in.k.row(key), 1, dq_sum.row(0));
        }
        dq_sum.finish();
    }
}

// All query heads of one key head of one document.
template <class To>
void backward_heads_of_key(const AttentionInput& input, const at::Tensor& d_out,
                           const at::Tensor& out, const at::Tensor& lse,
                           const AttentionGradients& gradients, int64_t document, int64_t key_head,
                           Scratch& scratch) {
    const ProductSizes s(input);
    std::vector<float> dk_beside;
    std::vector<float> dv_beside;
    const Sum<To> dk(head_of<To>(gradients.dk, document, key_head), gradients.adds, s.keys, s.width,
                     dk_beside);
    const Sum<To> dv(head_of<To>(gradients.dv, document, key_head), gradients.adds, s.keys, s.width,
                     dv_beside);
    const int64_t group = s.query_heads / s.key_heads;
    for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
        const HeadInput in{head_of<const bf16>(input.q, document, head),
                           head_of<const bf16>(input.k, document, key_head),
                           head_of<const bf16>(input.v, document, key_head),
                           head_of<const bf16>(d_out, document, head),
                           head_of<const bf16>(out, document, head),
                           head_of<const float>(lse, document, head)};
        backward_head(s, input.band == causal, in, head_of<To>(gradients.dq, document, head),
                      gradients.adds, dk, dv, scratch);
    }
    dk.finish();
    dv.finish();
}

}  // namespace

void attend_backward_with_mkl(const AttentionInput& input, const at::Tensor& d_out,
                              const at::Tensor& out, const at::Tensor& lse,
                              const AttentionGradients& gradients) {
    const ProductSizes s(input);
    const at::Tensor lse_of_heads = lse.unsqueeze(-1);
    RINGSHARD_CHECK(input.q.scalar_type() == at::kBFloat16);
    RINGSHARD_CHECK(!gradients.adds || gradients.dq.scalar_type() == at::kFloat);
    with_type(gradients.dq, [&]<class To>(To*) {
        at::parallel_for(0, s.documents * s.key_heads, 1, [&](int64_t begin, int64_t end) {
            Scratch scratch(std::min(block, s.queries), std::min(block, s.keys));
            for (int64_t i = begin; i < end; ++i)
                backward_heads_of_key<To>(input, d_out, out, lse_of_heads, gradients,
                                          i / s.key_heads, i % s.key_heads, scratch);
        });
    });
}

}  // namespace ringshard::ops
