#pragma once

#include <vector>

#include "gated_delta.hpp"
#include "state_mixer.hpp"

namespace ringshard::model {

// The gated delta net, between two projections.
class DeltaNet : public StateMixer {
public:
    DeltaNet(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
             const DeltaNetSpec& spec);

    std::vector<const Projection*> projections() const override { return {&in_, &out_}; }

    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override;
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;

private:
    // The two parts of a row: queries, keys, values, b and a; and the gates of the output.
    at::Tensor columns(const at::Tensor& rows) const;
    at::Tensor gates(const at::Tensor& rows) const;
    at::Tensor rows_gradient(const BackwardPass& pass, at::Tensor dy) const;

    bool is_grouped_;
    Projection in_;
    GatedDelta state_;
    Projection out_;
};

}  // namespace ringshard::model
