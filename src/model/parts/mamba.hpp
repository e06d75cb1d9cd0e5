#pragma once

#include <optional>
#include <vector>

#include "mixer.hpp"
#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/delta_gates.hpp"
#include "state_path.hpp"

namespace ringshard::model {

// The state space of Mamba2, between two projections. Rows are gates of the output, values, keys,
// queries and lengths of steps; in Mamba's terms z, x, B, C and dt.
class Mamba : public Mixer {
public:
    Mamba(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block);

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
    attention::DeltaWeights weights_of(const shard::UnitTensors& weights) const;
    ops::NormOfGated norm(const shard::UnitTensors& weights) const;
    // Returns the input of the output's projection.
    at::Tensor normed(const shard::UnitTensors& weights, const Saved& saved) const;

    double epsilon_;
    int64_t norm_groups_;
    Projection in_;
    shard::ParameterId conv_;
    std::optional<shard::ParameterId> conv_bias_;
    shard::ParameterId bias_;      // dt_bias
    shard::ParameterId log_rate_;  // A_log
    shard::ParameterId norm_;
    shard::ParameterId skip_;  // D
    Projection out_;
    StatePath path_;
};

}  // namespace ringshard::model
