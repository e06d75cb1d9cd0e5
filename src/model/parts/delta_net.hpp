#pragma once

#include <vector>

#include "mixer.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/delta_gates.hpp"
#include "state_path.hpp"

namespace ringshard::model {

// The gated delta net, between two projections.
class DeltaNet : public Mixer {
public:
    DeltaNet(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block);

    bool is_projected(const Saved& saved) const override { return path_.rows(saved).defined(); }
    void project(const BlockContext& context, const shard::UnitTensors& weights,
                 const at::Tensor& x, Saved& saved) const override;
    void mix(const BlockContext& context, const shard::UnitTensors& weights,
             Saved& saved) const override;
    at::Tensor output(const BlockContext& context, const shard::UnitTensors& weights,
                      const Saved& saved, const at::Tensor& addend) const override;
    at::Tensor output_backward(const BlockContext& context, const shard::UnitTensors& weights,
                               const shard::UnitTensors& gradients, const at::Tensor& dy,
                               const Saved& saved) const override;
    at::Tensor project_backward(const BlockContext& context, const shard::UnitTensors& weights,
                                const shard::UnitTensors& gradients, const at::Tensor& d_rows,
                                const at::Tensor& x) const override;
    std::vector<ProductUse> products(config::ActivationPolicy policy,
                                     bool keeps_output) const override;
    std::vector<const Projection*> projections() const override;

private:
    // The two parts of a row: queries, keys, values, b and a; and the gates of the output.
    at::Tensor mixed(const at::Tensor& rows) const;
    at::Tensor gates(const at::Tensor& rows) const;
    attention::DeltaWeights weights_of(const shard::UnitTensors& weights) const;
    ops::GatedNorm norm(const shard::UnitTensors& weights) const;
    // Returns the input of the output's projection.
    at::Tensor normed(const shard::UnitTensors& weights, const Saved& saved) const;

    attention::DeltaSizes sizes_;
    double epsilon_;
    bool is_grouped_;
    Projection in_;
    shard::ParameterId conv_;
    shard::ParameterId bias_;      // dt_bias
    shard::ParameterId log_rate_;  // A_log
    shard::ParameterId norm_;
    Projection out_;
    StatePath path_;  // rows [t, columns + values]: queries, keys, values, b, a, gates
};

}  // namespace ringshard::model
