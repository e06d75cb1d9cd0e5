#include "embeddings.hpp"

namespace ringshard::model {

namespace {

class EmbeddingObjective : public Objective {
public:
    bool learns_rows() const override { return true; }
    std::vector<FurtherNumber> further_numbers() const override { return {{"accuracy"}}; }
    StatNames stat_names() const override { return {.entropy = "", .accuracy = ""}; }
    void learn(const at::Tensor& rows, const ObjectiveTargets& targets, double gradient_scale,
               const at::Tensor& token_stats) const override {
        if (!targets.row_gradients.defined()) {  // of a plan, which has no texts
            rows.zero_();
            token_stats.zero_();
            return;
        }
        rows.copy_(targets.row_gradients * gradient_scale);
        token_stats.copy_(targets.row_numbers);
    }
    void evaluate(const at::Tensor& /*rows*/, const ops::Targets& /*targets*/,
                  const at::Tensor& token_stats) const override {
        token_stats.zero_();  // a row alone says nothing
    }
};

}  // namespace

std::shared_ptr<const Objective> embedding_objective() {
    return std::make_shared<const EmbeddingObjective>();
}

}  // namespace ringshard::model
