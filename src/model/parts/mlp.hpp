#pragma once

#include <optional>
#include <vector>

#include "feed_forward.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/xielu.hpp"

namespace ringshard::model {

// down(activation(gate) * up), or down(activation(up)).
class Mlp : public FeedForward {
public:
    // product: where the input of the second product is kept.
    Mlp(shard::UnitLayout& unit, SavedLayout& slots, const BlockSpec& block, const MlpSpec& spec,
        const SavedSlot& product);

    std::vector<const Projection*> projections() const override {
        return {&gate_up_projection_, &down_};
    }
    bool keeps_inner(config::ActivationPolicy policy) const override {
        return gate_up_.is_kept(policy);
    }
    bool has_inner(const Saved& saved) const override { return saved.has(gate_up_); }
    void make_inner(const Pass& pass, const at::Tensor& x) const override;
    // Returns down's result of what make_inner() has made.
    at::Tensor make_output(const Pass& pass) const {
        return output(pass, activated(pass.weights, pass.saved[gate_up_]));
    }
    // Returns the gradient of x. Writes over what make_inner() has made.
    at::Tensor backward_to(const BackwardPass& pass, const at::Tensor& dy,
                           const at::Tensor& x) const;

    void add_costs(StageCosts& costs, const MadeAgain& again) const override {
        add_costs(costs, again, "");
    }
    // prefix: of the names of its products.
    void add_costs(StageCosts& costs, const MadeAgain& again, const std::string& prefix) const;

protected:
    at::Tensor make_rows(const Pass& pass, const at::Tensor& x) const override {
        make_inner(pass, x);
        return activated(pass.weights, pass.saved[gate_up_]);
    }
    void end_forward(const Pass& pass, const at::Tensor& rows) const override {
        if (product_.is_kept(pass.context.policy)) pass.saved[product_] = rows;
    }
    void chunk_backward(const BackwardPass& pass, const at::Tensor& dy,
                        const LayerInput& input) const override;

private:
    // Returns the gradient of gate and up, and adds that of the second product's weights.
    at::Tensor backward_inner(const BackwardPass& pass, const at::Tensor& dy) const;
    at::Tensor activated(const shard::UnitTensors& weights, const at::Tensor& inner) const;
    // As ops::activate_backward().
    void activated_backward(const BackwardPass& pass, const at::Tensor& d_product,
                            const at::Tensor& inner, bool makes_product) const;
    ops::XieluScalars scalars_of(const shard::UnitTensors& tensors) const;
    // Multiplies the gate, or its gradient, in place.
    void scale_gate(const at::Tensor& gate_up) const {
        if (gate_multiplier_ != 1) gate_up.narrow(1, 0, gate_up.size(1) / 2).mul_(gate_multiplier_);
    }

    ops::Activation activation_;
    bool is_gated_;
    double gate_multiplier_;
    double intermediate_;
    Projection gate_up_projection_;
    Projection down_;
    // The scalars of xIELU.
    std::optional<shard::ParameterId> alpha_p_;
    std::optional<shard::ParameterId> alpha_n_;
    SavedSlot gate_up_;  // [t, 2i]: a row is gate, then up; without a gate [t, i]
    SavedSlot product_;  // [t, i]
};

}  // namespace ringshard::model
