#include <ATen/ops/log_softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

namespace {

// The constants of the method: the tokens whose entropy counts, and about the
// logarithm of their number.
constexpr int64_t most_likely = 20;
constexpr double largest_entropy = 3.0;

class EntropyAdaptiveObjective : public Objective {
public:
    explicit EntropyAdaptiveObjective(double alpha) : alpha_(alpha) {}

    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        ops::cross_entropy(logits, weighted(logits, targets.data), gradient_scale, {}, token_stats);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        ops::cross_entropy_value(logits, weighted(logits, targets), {}, token_stats);
    }

private:
    ops::Targets weighted(const at::Tensor& logits, const ops::Targets& targets) const {
        const int64_t count = std::min(most_likely, logits.size(1));
        const auto [largest, tokens] = at::topk(logits, count);
        const at::Tensor log_probs = at::log_softmax(largest, 1, at::kFloat);
        const at::Tensor entropy = -(log_probs.exp() * log_probs).sum(1);
        const at::Tensor weights = (entropy / largest_entropy).pow_(alpha_);
        return {targets.tokens, targets.weighted(weights)};
    }

    double alpha_;
};

}  // namespace

std::shared_ptr<const Objective> entropy_adaptive_objective(double alpha) {
    return std::make_shared<const EntropyAdaptiveObjective>(alpha);
}

}  // namespace ringshard::model
