#include "anchor.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "distillation.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::model {

namespace {

// The places of the further numbers in the statistics of a token.
enum Place : int64_t {
    divergence = ops::stats_per_token,
    anchored_weight,
    data_loss,
    data_weight,
};

class AnchoredObjective : public Objective {
public:
    AnchoredObjective(std::shared_ptr<const Objective> of_data, double weight)
        : of_data_(std::move(of_data)), weight_(weight) {
        RINGSHARD_CHECK(of_data_->further_numbers().empty());
    }

    std::vector<FurtherNumber> further_numbers() const override {
        return {{"anchor_divergence", 1}, {"anchor_share"}, {"data_loss", 3}, {}};
    }

    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        const at::Tensor weights =
            targets.data.weighted(at::ones({logits.size(0)}, logits.options().dtype(at::kFloat)));
        token_stats.narrow(1, divergence, 2).zero_();
        if (!targets.stored_tokens.defined()) {
            // A plan: a chunk may have a copy of the logits of all its tokens but one.
            RINGSHARD_CHECK(logits.is_meta());
            const at::Tensor anchored = at::empty_like(logits);
            learn_data(logits, {targets.data.tokens, weights}, gradient_scale, token_stats);
            return;
        }
        if (!targets.stored_rows.defined()) {
            learn_anchor(logits, targets, weights, gradient_scale, token_stats);
            token_stats.narrow(1, data_loss, 2).zero_();
            return;
        }
        if (targets.stored_rows.size(0) == 0) {
            learn_data(logits, {targets.data.tokens, weights}, gradient_scale, token_stats);
            return;
        }
        const at::Tensor& rows = targets.stored_rows;
        const at::Tensor anchored = logits.index_select(0, rows);
        const at::Tensor weights_of_anchored = weights.index_select(0, rows);
        learn_data(logits, {targets.data.tokens, weights.index_fill(0, rows, 0)}, gradient_scale,
                   token_stats);
        const at::Tensor stats =
            at::zeros({rows.size(0), token_stats.size(1)}, token_stats.options());
        ObjectiveTargets of_anchored = targets;
        of_anchored.data.tokens = targets.data.tokens.index_select(0, rows);
        learn_anchor(anchored, of_anchored, weights_of_anchored, gradient_scale, stats);
        logits.index_copy_(0, rows, anchored);
        token_stats.index_copy_(0, rows, stats);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        of_data_->evaluate(logits, targets, token_stats);
    }

private:
    static at::Tensor empty_stats(const at::Tensor& token_stats, int64_t numbers) {
        return at::empty({token_stats.size(0), numbers}, token_stats.options());
    }
    // All tokens have stored numbers.
    void learn_anchor(const at::Tensor& logits, const ObjectiveTargets& targets,
                      const at::Tensor& weights, double gradient_scale,
                      const at::Tensor& token_stats) const {
        const at::Tensor stats = empty_stats(token_stats, from_base_->numbers_per_token());
        from_base_->learn(
            logits,
            {{targets.data.tokens, weights}, targets.stored_tokens, targets.stored_log_probs},
            gradient_scale * weight_, stats);
        const at::Tensor of_tokens = stats.select(1, 0);
        token_stats.select(1, 0).copy_(of_tokens * weight_);
        token_stats.narrow(1, 1, 2).copy_(stats.narrow(1, 1, 2));
        token_stats.select(1, divergence).copy_(of_tokens);
        token_stats.select(1, anchored_weight).copy_(weights);
    }
    void learn_data(const at::Tensor& logits, const ops::Targets& targets, double gradient_scale,
                    const at::Tensor& token_stats) const {
        const at::Tensor stats = empty_stats(token_stats, ops::stats_per_token);
        of_data_->learn(logits, {targets}, gradient_scale, stats);
        token_stats.narrow(1, 0, ops::stats_per_token).copy_(stats);
        token_stats.select(1, data_loss).copy_(stats.select(1, 0));
        token_stats.select(1, data_weight).copy_(targets.weights);
    }

    std::shared_ptr<const Objective> of_data_;
    std::shared_ptr<const Objective> from_base_ = distillation_objective({});
    double weight_;
};

}  // namespace

std::shared_ptr<const Objective> anchored_objective(std::shared_ptr<const Objective> of_data,
                                                    double weight) {
    return std::make_shared<const AnchoredObjective>(std::move(of_data), weight);
}

}  // namespace ringshard::model
