#pragma once

#include <memory>
#include <vector>

#include "layer_input.hpp"
#include "layer_output.hpp"
#include "mlp.hpp"

namespace ringshard::model {

// An MLP beside the experts of a layer, and the norms around both.
struct MlpBeside {
    std::shared_ptr<const Norm> before;
    std::shared_ptr<const Mlp> mlp;
    std::shared_ptr<const Norm> behind;
    std::shared_ptr<const Norm> behind_experts;
};

// The sum of the experts' rows and of those of an MLP that reads the residual stream, each normed,
// with a norm behind it.
class OutputBesideMlp final : public Output {
public:
    OutputBesideMlp(const Part& experts, MlpBeside beside, std::shared_ptr<const Norm> behind,
                    SavedLayout& slots, const SavedSlot& stream, config::ActivationPolicy keeps);

    at::Tensor forward(const Pass& pass, at::Tensor rows) const override;
    at::Tensor backward(const BackwardPass& pass, const at::Tensor& dy) const override;
    bool reads_rows() const override { return true; }
    bool lacks_rows(const Saved& saved) const override { return !saved.has(of_experts_); }
    void make_rows(const Pass& pass, at::Tensor rows) const override;
    void add_costs(StageCosts& costs, bool is_made_again) const override;
    std::vector<const Projection*> projections() const override {
        return beside_.mlp->projections();
    }

private:
    MlpBeside beside_;
    std::shared_ptr<const Norm> behind_;
    NormedRows input_;      // of the MLP
    SavedSlot of_experts_;  // [t, w], before the norms
    SavedSlot of_mlp_;
    SavedSlot sum_;
};

}  // namespace ringshard::model
