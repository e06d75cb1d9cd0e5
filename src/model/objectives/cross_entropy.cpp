#include "ringshard/model/objective.hpp"

namespace ringshard::model {

namespace {

class CrossEntropyObjective : public Objective {
public:
    explicit CrossEntropyObjective(const ops::LossForm& form) : form_(form) {}

    void learn(const at::Tensor& logits, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        ops::cross_entropy(logits, targets.data, gradient_scale, form_, token_stats);
    }
    void evaluate(const at::Tensor& logits, const ops::Targets& targets,
                  const at::Tensor& token_stats) const override {
        ops::cross_entropy_value(logits, targets, form_, token_stats);
    }

private:
    ops::LossForm form_;
};

}  // namespace

std::shared_ptr<const Objective> cross_entropy_objective(const ops::LossForm& form) {
    return std::make_shared<const CrossEntropyObjective>(form);
}

}  // namespace ringshard::model
