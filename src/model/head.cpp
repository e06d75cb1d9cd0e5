#include "head.hpp"

#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ringshard/model/token_batch.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"

namespace ringshard::model {

namespace {

constexpr int64_t tokens_per_chunk = 256;

// Calls `work` with the places of some tokens that have a target, and these targets.
template <class Work>
void for_chunks(const at::Tensor& targets, Work work) {
    const at::Tensor places = at::nonzero(targets.ne(TokenBatch::no_target)).view({-1});
    for (int64_t begin = 0; begin < places.size(0); begin += tokens_per_chunk) {
        const at::Tensor chunk =
            places.narrow(0, begin, std::min(tokens_per_chunk, places.size(0) - begin));
        work(chunk, at::index_select(targets, 0, chunk));
    }
}

}  // namespace

HeadViews::HeadViews(const shard::FlatUnit& unit, const at::Tensor& flat)
    : projection(unit.view(flat, HeadGroup::projection)), norm(unit.view(flat, HeadGroup::norm)) {}

HeadResult head_forward_backward(const ModelSpec& spec, const HeadViews& weights,
                                 const HeadViews& gradients, const at::Tensor& x,
                                 const at::Tensor& targets, double gradient_scale,
                                 const ops::LossForm& form) {
    HeadResult result{{}, at::zeros_like(x)};
    for_chunks(targets, [&](const at::Tensor& places, const at::Tensor& chunk_targets) {
        const at::Tensor rows = ops::embedding(places, x);  // of x
        const ops::RmsNormed normed = ops::rms_norm(rows, weights.norm, spec.norm_epsilon);
        const at::Tensor logits = ops::linear(normed.y, weights.projection);
        result.sums += ops::cross_entropy(logits, chunk_targets, gradient_scale, form);
        const at::Tensor& d_logits = logits;  // written over
        ops::add_weight_gradient(gradients.projection, d_logits, normed.y);
        const at::Tensor d_normed = ops::linear_backward_input(d_logits, weights.projection);
        const at::Tensor d_rows = at::zeros_like(rows);
        ops::rms_norm_backward(d_normed, rows, normed.inverse_rms, weights.norm, d_rows,
                               gradients.norm);
        result.d_x.index_copy_(0, places.to(x.device()), d_rows);
    });
    return result;
}

ops::TokenSums head_forward(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                            const at::Tensor& targets, const ops::LossForm& form) {
    ops::TokenSums sums;
    for_chunks(targets, [&](const at::Tensor& places, const at::Tensor& chunk_targets) {
        sums += ops::cross_entropy_value(head_logits(spec, weights, ops::embedding(places, x)),
                                         chunk_targets, form);
    });
    return sums;
}

at::Tensor head_logits(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x) {
    return ops::linear(ops::rms_norm(x, weights.norm, spec.norm_epsilon).y, weights.projection);
}

}  // namespace ringshard::model
