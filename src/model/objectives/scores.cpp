#include "scores.hpp"

#include <ATen/ops/arange.h>

#include "../pair_loss.hpp"
#include "ringshard/config/metric_names.hpp"
#include "ringshard/config/training_settings.hpp"
#include "sigmoid.hpp"

namespace ringshard::model {

namespace {

class RewardLoss : public PairLoss {
public:
    explicit RewardLoss(double centring) : centring_(centring) {}

    Value of(const PairSide& chosen, const PairSide& rejected,
             const AllPairs& /*all*/) const override {
        const double margin = chosen.score - rejected.score;
        const double beyond = margin - (chosen.reference - rejected.reference);
        const double sum = chosen.score + rejected.score;
        const double slope = sigmoid(-beyond);
        const double centre = 2 * centring_ * sum;
        return {minus_log_sigmoid(beyond) + centring_ * sum * sum,
                centre - slope,
                centre + slope,
                {sum / 2, margin > 0 ? 1.0 : 0.0, margin}};
    }
    std::vector<FurtherNumber> further_numbers() const override {
        std::vector<FurtherNumber> numbers;
        for (const char* name : config::reward_metrics) numbers.push_back({name});
        return numbers;
    }

private:
    double centring_;
};

// A document's reward stands where others have the log-probability of a token, and is learned by
// the weight that the loss of its pair gives.
class RewardObjective : public Objective {
public:
    explicit RewardObjective(double centring) : loss_(centring) {}

    std::vector<FurtherNumber> further_numbers() const override { return loss_.further_numbers(); }
    StatNames stat_names() const override { return {.entropy = "", .accuracy = ""}; }
    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        // Rounded once to the type of the logits.
        if (const at::Tensor& weights = targets.data.weights; weights.defined())
            logits.select(1, 0).copy_(weights * -gradient_scale);
        else
            logits.fill_(-gradient_scale);
        token_stats.zero_();  // what a pair costs is known to its loss
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& /*targets*/,
                  const at::Tensor& token_stats) const override {
        token_stats.zero_();
        token_stats.select(1, 0).copy_(logits.select(1, 0)).neg_();
    }
    const PairLoss* pair_loss() const override { return &loss_; }

private:
    RewardLoss loss_;
};

class ClassificationObjective : public Objective {
public:
    StatNames stat_names() const override { return {.accuracy = "accuracy"}; }
    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        of_labels_->learn(logits, targets, gradient_scale, token_stats);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        of_labels_->evaluate(logits, targets, token_stats);
    }

private:
    std::shared_ptr<const Objective> of_labels_ = cross_entropy_objective({});
};

class LabelSetsObjective : public Objective {
public:
    StatNames stat_names() const override { return {.entropy = "", .accuracy = "accuracy"}; }
    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        const at::Tensor has_label = labels_of(logits, targets.data);
        write(logits, has_label, targets.data, token_stats);
        const double of_each = gradient_scale / static_cast<double>(logits.size(1));
        const at::Tensor slopes = (logits.to(at::kFloat).sigmoid() - has_label) * of_each;
        logits.copy_(targets.data.weighted(slopes.t()).t());
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        write(logits, labels_of(logits, targets), targets, token_stats);
    }

private:
    // [t, labels] fp32: 1 where a document has the label.
    static at::Tensor labels_of(const at::Tensor& logits, const ops::Targets& targets) {
        const at::Tensor bits = at::arange(logits.size(1), targets.tokens.options());
        return targets.tokens.unsqueeze(1).bitwise_right_shift(bits).bitwise_and(1).to(at::kFloat);
    }
    // A document is right where each of its labels has a score above 0, and no other.
    static void write(const at::Tensor& logits, const at::Tensor& has_label,
                      const ops::Targets& targets, const at::Tensor& token_stats) {
        const at::Tensor scores = logits.to(at::kFloat);
        // max(s, 0) - s y + log(1 + exp(-|s|)): of having a label, or of not having it.
        const at::Tensor positive = scores.clamp_min(0);
        const at::Tensor losses =
            positive - scores * has_label + (scores - positive * 2).exp_().log1p_();
        token_stats.zero_();
        token_stats.select(1, 0).copy_(targets.weighted(losses.mean(1)));
        token_stats.select(1, 2).copy_((scores.gt(0) == has_label.gt(0)).all(1));
    }
};

// The number of a document stands as the weight of its target.
class RegressionObjective : public Objective {
public:
    StatNames stat_names() const override { return {.entropy = "", .accuracy = ""}; }
    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        const at::Tensor errors = errors_of(logits, targets.data);
        write(errors, token_stats);
        logits.select(1, 0).copy_(errors * (2 * gradient_scale));
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        write(errors_of(logits, targets), token_stats);
    }

private:
    static at::Tensor errors_of(const at::Tensor& logits, const ops::Targets& targets) {
        const at::Tensor scores = logits.select(1, 0).to(at::kFloat);
        return targets.weights.defined() ? scores - targets.weights : scores - 1;
    }
    static void write(const at::Tensor& errors, const at::Tensor& token_stats) {
        token_stats.zero_();
        token_stats.select(1, 0).copy_(errors.square());
    }
};

}  // namespace

std::shared_ptr<const Objective> label_sets_objective() {
    return std::make_shared<const LabelSetsObjective>();
}

std::shared_ptr<const Objective> regression_objective() {
    return std::make_shared<const RegressionObjective>();
}

std::shared_ptr<const Objective> reward_objective(const config::TrainingSettings& training) {
    return std::make_shared<const RewardObjective>(training.center_rewards_coefficient.value_or(0));
}

std::shared_ptr<const Objective> classification_objective() {
    return std::make_shared<const ClassificationObjective>();
}

}  // namespace ringshard::model
