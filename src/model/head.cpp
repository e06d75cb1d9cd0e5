#include "head.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ringshard/ops/device_copies.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

namespace {

// A range of the tokens that have a target.
struct Chunk {
    at::Tensor places;
    ops::Targets targets;
    at::Tensor token_stats;                    // their statistics
    std::optional<at::Tensor> gradient_norms;  // of their rows
    std::optional<StoredDistributions> stored;
    std::optional<EmbeddedDocuments> documents;
};

// Calls `work` with one chunk after the other. Returns the statistics of all tokens with a target,
// [n, numbers_per_token].
template <class Work>
at::Tensor for_chunks(const HeadTargets& targets, int64_t tokens_per_chunk,
                      int64_t numbers_per_token, Work work) {
    const int64_t count = targets.tokens.size(0);
    at::Tensor token_stats =
        at::empty({count, numbers_per_token}, targets.tokens.options().dtype(at::kFloat));
    for (int64_t begin = 0; begin < count; begin += tokens_per_chunk) {
        const int64_t length = std::min(tokens_per_chunk, count - begin);
        const HeadTargets part = targets.of_range(begin, length);
        work(Chunk{part.places,
                   {part.tokens, part.weights.value_or(at::Tensor())},
                   token_stats.narrow(0, begin, length),
                   part.gradient_norms,
                   part.stored,
                   part.documents});
    }
    return token_stats;
}

// Returns what the objective learns from, on the device of the targets.
ObjectiveTargets objective_targets(const Chunk& chunk) {
    ObjectiveTargets targets{chunk.targets};
    if (chunk.documents) {
        const EmbeddedDocuments& documents = *chunk.documents;
        const at::Tensor shares = documents.shares.unsqueeze(1);
        targets.row_gradients =
            documents.learned->gradients.index_select(0, documents.of_targets).mul_(shares);
        targets.row_numbers =
            documents.learned->numbers.index_select(0, documents.of_targets).mul_(shares);
    }
    if (!chunk.stored) return targets;
    const auto there = [&](const at::Tensor& numbers) {
        return ops::on_device(numbers.const_data_ptr(), numbers.numel(), numbers.scalar_type(),
                              chunk.places.device())
            .view(numbers.sizes());
    };
    at::Tensor places = chunk.stored->places;  // below 0: the token has no stored numbers
    const at::Tensor rows = places.ge(0).nonzero().flatten();
    if (rows.size(0) < places.size(0)) {
        places = places.index_select(0, rows);
        targets.stored_rows = there(rows);
    }
    const auto read = [&](const at::Tensor& numbers) {
        return there(numbers.index_select(0, places));
    };
    targets.stored_tokens = read(chunk.stored->tokens).to(at::kLong);
    targets.stored_log_probs = read(chunk.stored->log_probs);
    return targets;
}

}  // namespace

HeadTargets HeadTargets::of_range(int64_t begin, int64_t length) const {
    HeadTargets part = *this;
    part.places = places.narrow(0, begin, length);
    part.tokens = tokens.narrow(0, begin, length);
    if (weights) part.weights = weights->narrow(0, begin, length);
    if (gradient_norms) part.gradient_norms = gradient_norms->narrow(0, begin, length);
    if (stored) part.stored->places = stored->places.narrow(0, begin, length);
    if (documents) {
        part.documents->of_targets = documents->of_targets.narrow(0, begin, length);
        part.documents->shares = documents->shares.narrow(0, begin, length);
    }
    return part;
}

HeadViews::HeadViews(shard::UnitTensors tensors, const HeadParameters& parameters)
    : unit(std::move(tensors)),
      norm(*parameters.norm),
      projection(unit[parameters.projection]),
      bias(parameters.bias ? unit[*parameters.bias] : at::Tensor()),
      adapter(parameters.adapter ? &*parameters.adapter : nullptr),
      rows(parameters.rows ? &*parameters.rows : nullptr) {}

namespace {

// Returns the logits of normed rows. Their factor is the rows', which are fewer numbers.
at::Tensor logits_of(const ModelSpec& spec, const ProjectionContext& context,
                     const HeadViews& weights, const at::Tensor& normed) {
    if (spec.logits_multiplier != 1) normed.mul_(spec.logits_multiplier);
    at::Tensor logits = ops::linear(context.gemms, normed, weights.projection, weights.bias);
    if (weights.adapter != nullptr)
        weights.adapter->forward({context, weights.unit, weights.projection}, normed, weights.bias,
                                 logits);
    if (weights.rows != nullptr)
        weights.rows->replace_logits(context.gemms, weights.unit, normed, logits);
    if (spec.logits_cap > 0) logits.div_(spec.logits_cap).tanh_().mul_(spec.logits_cap);
    return logits;
}

// The same of rows before the final norm.
at::Tensor logits_of_rows(const ModelSpec& spec, const ProjectionContext& context,
                          const HeadViews& weights, const at::Tensor& x) {
    const at::Tensor y = weights.norm.forward(weights.unit, x).y;
    return logits_of(spec, context, weights, y.to(weights.projection.scalar_type()));
}

// Returns the gradient of the rows, and adds that of the adapter, if there is one.
at::Tensor projection_backward(const ProjectionContext& context, const HeadViews& weights,
                               const HeadGradients& gradients, const at::Tensor& normed,
                               const at::Tensor& d_logits) {
    if (weights.rows != nullptr) {
        const at::Tensor of_rows = weights.rows->take_logit_gradients(d_logits);
        at::Tensor d_x = ops::linear_backward_input(context.gemms, d_logits, weights.projection);
        weights.rows->add_logit_gradients(context.gemms, weights.unit, gradients.unit, of_rows,
                                          normed, d_x);
        return d_x;
    }
    if (weights.adapter == nullptr)
        return ops::linear_backward_input(context.gemms, d_logits, weights.projection);
    const LowRank::Operands operands{context, weights.unit, weights.projection};
    const at::Tensor scaled = weights.adapter->has_magnitudes() ? d_logits.clone() : d_logits;
    const LowRank::Gradient gradient = weights.adapter->begin_backward(operands, d_logits, scaled);
    weights.adapter->add_gradients(operands, gradients.unit, gradient, normed);
    at::Tensor d_x = ops::linear_backward_input(
        context.gemms, weights.adapter->scales_base(context) ? scaled : d_logits,
        weights.projection);
    weights.adapter->add_input_gradient(operands, gradient, d_x);
    return d_x;
}

// Turns the gradient of capped logits into that of the logits before.
void cap_backward(const ModelSpec& spec, const at::Tensor& d_logits, const at::Tensor& capped) {
    d_logits.mul_(1 - (capped / spec.logits_cap).square_());
}

// The same where the objective learns from the rows themselves, and the projection has no part.
at::Tensor learn_rows(const HeadViews& weights, const HeadGradients& gradients, const at::Tensor& x,
                      const HeadTargets& targets, const HeadWork& work, const at::Tensor& d_x) {
    const int64_t numbers_per_token = work.objective.numbers_per_token();
    return for_chunks(targets, work.tokens_per_chunk, numbers_per_token, [&](const Chunk& chunk) {
        const at::Tensor rows = ops::embedding(chunk.places, x);
        const ops::RmsNormed normed = weights.norm.forward(weights.unit, rows);
        work.objective.learn(normed.y, objective_targets(chunk), work.gradient_scale,
                             chunk.token_stats);
        const at::Tensor d_rows = at::zeros_like(rows);
        weights.norm.backward(weights.unit, gradients.unit, normed.y, rows, normed.inverse_rms,
                              d_rows);
        if (chunk.gradient_norms)
            chunk.gradient_norms->copy_(at::linalg_vector_norm(d_rows, 2, {1}, false, at::kFloat));
        d_x.index_copy_(0, chunk.places, d_rows);
    });
}

}  // namespace

at::Tensor head_forward_backward(const ModelSpec& spec, const HeadViews& weights,
                                 const HeadGradients& gradients, const at::Tensor& x,
                                 const HeadTargets& targets, const HeadWork& work,
                                 const at::Tensor& d_x) {
    if (work.objective.learns_rows()) return learn_rows(weights, gradients, x, targets, work, d_x);
    RowNorms norms;
    const int64_t numbers_per_token = work.objective.numbers_per_token();
    return for_chunks(targets, work.tokens_per_chunk, numbers_per_token, [&](const Chunk& chunk) {
        const at::Tensor rows = ops::embedding(chunk.places, x);  // of x
        const ops::RmsNormed normed = weights.norm.forward(weights.unit, rows);
        const at::Tensor y = normed.y.to(weights.projection.scalar_type());
        // index_select has no implementation for tensors without numbers, which a plan takes.
        const bool has_keys = weights.adapter != nullptr && targets.dropout_keys;
        const ProjectionContext context{
            work.gemms, has_keys ? targets.dropout_keys->gather(0, chunk.places) : at::Tensor(),
            &norms};
        const at::Tensor logits = logits_of(spec, context, weights, y);
        std::optional<at::Tensor> capped;
        if (spec.logits_cap > 0) capped = logits.clone();
        work.objective.learn(logits, objective_targets(chunk), work.gradient_scale,
                             chunk.token_stats);
        const at::Tensor& d_logits = logits;  // written over
        if (capped) cap_backward(spec, d_logits, *capped);
        if (gradients.parameters.bias)
            ops::add_bias_gradient(gradients.unit[*gradients.parameters.bias], d_logits);
        const auto [d_projection, begins] = gradients.unit.sum(gradients.parameters.projection);
        ops::add_weight_gradient(work.gemms, d_projection, d_logits, y, begins);
        const at::Tensor d_normed = projection_backward(context, weights, gradients, y, d_logits);
        if (spec.logits_multiplier != 1) d_normed.mul_(spec.logits_multiplier);
        const at::Tensor d_rows = at::zeros_like(rows);
        weights.norm.backward(weights.unit, gradients.unit, d_normed, rows, normed.inverse_rms,
                              d_rows);
        if (chunk.gradient_norms)
            chunk.gradient_norms->copy_(at::linalg_vector_norm(d_rows, 2, {1}, false, at::kFloat));
        d_x.index_copy_(0, chunk.places, d_rows);
    });
}

at::Tensor embed_documents(const HeadViews& weights, const at::Tensor& x,
                           const HeadTargets& targets, const HeadWork& work) {
    const EmbeddedDocuments& documents = *targets.documents;
    const at::Tensor embeddings =
        at::zeros({documents.count, x.size(1)}, x.options().dtype(at::kFloat));
    for_chunks(targets, work.tokens_per_chunk, 1, [&](const Chunk& chunk) {
        const at::Tensor rows =
            weights.norm.forward(weights.unit, ops::embedding(chunk.places, x)).y;
        embeddings.index_add_(0, chunk.documents->of_targets,
                              rows.to(at::kFloat) * chunk.documents->shares.unsqueeze(1));
    });
    return embeddings;
}

at::Tensor head_forward(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                        const HeadTargets& targets, const HeadWork& work) {
    RowNorms norms;
    return for_chunks(
        targets, work.tokens_per_chunk, ops::stats_per_token, [&](const Chunk& chunk) {
            work.objective.evaluate(logits_of_rows(spec, {work.gemms, {}, &norms}, weights,
                                                   ops::embedding(chunk.places, x)),
                                    chunk.targets, chunk.token_stats);
        });
}

TokenScores head_scores(const ModelSpec& spec, const HeadViews& weights, const at::Tensor& x,
                        const HeadTargets& targets, const HeadWork& work,
                        const MostLikely& wanted) {
    const auto options = targets.tokens.options();
    const int64_t count = targets.tokens.size(0);
    TokenScores scores{{},
                       at::empty({count, wanted.count}, options),
                       at::empty({count, wanted.count}, options.dtype(at::kFloat))};
    int64_t begin = 0;
    RowNorms norms;
    const auto score = [&](const Chunk& chunk) {
        const at::Tensor logits = logits_of_rows(spec, {work.gemms, {}, &norms}, weights,
                                                 ops::embedding(chunk.places, x));
        ops::cross_entropy_value(logits, chunk.targets, {}, chunk.token_stats);
        const at::Tensor softened_stats =
            wanted.temperature == 1 ? chunk.token_stats : at::empty_like(chunk.token_stats);
        if (wanted.temperature != 1)
            ops::cross_entropy_value(logits.div_(wanted.temperature), chunk.targets, {},
                                     softened_stats);
        const int64_t length = chunk.places.size(0);
        const auto [largest, tokens] = at::topk(logits, wanted.count);
        // -log p(target) is log_sum - logit(target). In double: the sum of both is a large number.
        const at::Tensor of_targets = logits.gather(1, chunk.targets.tokens.unsqueeze(1));
        const at::Tensor log_sum =
            softened_stats.narrow(1, 0, 1).to(at::kDouble) + of_targets.to(at::kDouble);
        scores.top_tokens.narrow(0, begin, length).copy_(tokens);
        scores.top_log_probabilities.narrow(0, begin, length)
            .copy_(largest.to(at::kDouble) - log_sum);
        begin += length;
    };
    scores.token_stats = for_chunks(targets, work.tokens_per_chunk, ops::stats_per_token, score);
    return scores;
}

at::Tensor head_logits(const ModelSpec& spec, const ops::Gemms& gemms, const HeadViews& weights,
                       const at::Tensor& x) {
    return logits_of_rows(spec, {gemms}, weights, x);
}

}  // namespace ringshard::model
