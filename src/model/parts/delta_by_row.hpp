#pragma once

#include <vector>

#include "gated_delta.hpp"
#include "state_mixer.hpp"

namespace ringshard::model {

// A delta net whose states have a decay for each row. Decays and gates are products of low rank.
class DeltaByRow : public StateMixer {
public:
    DeltaByRow(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
               const DeltaByRowSpec& spec);

    std::vector<const Projection*> projections() const override {
        return {&in_, &decays_, &gates_, &out_};
    }

    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override;
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;
    void add_costs(StageCosts& costs, bool makes_output_again) const override;

private:
    // The parts of the rows that in_ makes: queries, keys, values and b; the low rows of decays;
    // those of gates.
    int64_t plain() const { return sizes_.convolved() + sizes_.betas(); }
    at::Tensor low_decays(const at::Tensor& low) const { return low.narrow(1, 0, rank_); }
    at::Tensor low_gates(const at::Tensor& low) const { return low.narrow(1, rank_, rank_); }
    // The parts of projected_, behind one another.
    at::Tensor columns(const Pass& pass) const;
    at::Tensor gates(const Pass& pass) const;

    int64_t rank_;
    Projection in_;
    Projection decays_;
    Projection gates_;
    GatedDelta state_;
    Projection out_;
    SavedSlot low_;  // [t, 2 rank]
};

}  // namespace ringshard::model
