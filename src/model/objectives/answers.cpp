#include "answers.hpp"

#include <ATen/ops/empty.h>

namespace ringshard::model {

namespace {

class AnswersObjective : public Objective {
public:
    AnswersObjective(std::unique_ptr<const PairLoss> loss, NeedsAllPairs needs)
        : loss_(std::move(loss)), needs_all_pairs_(needs == NeedsAllPairs::yes) {}

    std::vector<FurtherNumber> further_numbers() const override { return loss_->further_numbers(); }
    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        const at::Tensor stats =
            at::empty({token_stats.size(0), ops::stats_per_token}, token_stats.options());
        of_tokens_->learn(logits, targets, gradient_scale, stats);
        token_stats.zero_();  // what a pair costs is known to its loss
        token_stats.narrow(1, 0, ops::stats_per_token).copy_(stats);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        of_tokens_->evaluate(logits, targets, token_stats);
    }
    const PairLoss* pair_loss() const override { return loss_.get(); }
    bool needs_all_pairs() const override { return needs_all_pairs_; }

private:
    std::unique_ptr<const PairLoss> loss_;
    bool needs_all_pairs_;
    std::shared_ptr<const Objective> of_tokens_ = cross_entropy_objective({});
};

}  // namespace

std::shared_ptr<const Objective> answers_objective(std::unique_ptr<const PairLoss> loss,
                                                   NeedsAllPairs needs) {
    return std::make_shared<const AnswersObjective>(std::move(loss), needs);
}

}  // namespace ringshard::model
