#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ringshard/model/block_spec.hpp"
#include "ringshard/ops/delta_gates.hpp"
#include "state_mixer.hpp"

namespace ringshard::model {

// The state space of Mamba2, between two projections. Rows are gates of the output, values, keys,
// queries and lengths of steps; in Mamba's terms z, x, B, C and dt.
class Mamba : public StateMixer {
public:
    Mamba(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
          const MambaSpec& spec);

    std::vector<const Projection*> projections() const override { return {&in_, &out_}; }

    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override;
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;

private:
    attention::DeltaWeights weights_of(const shard::UnitTensors& weights) const;
    ops::NormOfGated norm(const shard::UnitTensors& weights) const;
    at::Tensor rows_gradient(const BackwardPass& pass, at::Tensor dy) const;
    struct GatedGradient {
        at::Tensor d_read;
        at::Tensor d_gates;
    };
    GatedGradient gated_backward(const BackwardPass& pass, const at::Tensor& d_normed) const;
    // Multiplies the parts of rows, or of their gradients, in place.
    void scale(const at::Tensor& rows) const;

    double epsilon_;
    int64_t norm_groups_;
    std::array<double, 5> multipliers_;
    double least_step_;
    Projection in_;
    shard::ParameterId conv_;
    std::optional<shard::ParameterId> conv_bias_;
    shard::ParameterId bias_;      // dt_bias
    shard::ParameterId log_rate_;  // A_log
    std::optional<shard::ParameterId> norm_;
    shard::ParameterId skip_;  // D
    Projection out_;
};

}  // namespace ringshard::model
