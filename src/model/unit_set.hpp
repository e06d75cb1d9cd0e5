#pragma once

#include <span>
#include <vector>

#include "ringshard/shard/zero.hpp"

namespace ringshard::model {

// Units of a module that a pass gathers together: all of it, or those of one slice of its experts.
class UnitSet {
public:
    UnitSet(shard::Zero& zero, std::vector<size_t> units)
        : zero_(&zero), units_(std::move(units)) {}

    const std::vector<size_t>& units() const { return units_; }
    // Gathered, or where gradients are added up. Collective over the zero group.
    shard::UnitTensors weights() const;
    void release(shard::Zero::NextUse next_use) const;
    shard::UnitTensors gradients() const;
    void reduce() const;  // the gradients of what is trained

private:
    shard::Zero* zero_;
    std::vector<size_t> units_;
};

// The slices of a block's experts that a rank gathers one after the other, in order, and whether
// the pass comes back to them. None: the experts come with the block.
struct ExpertSlices {
    std::span<const UnitSet> sets{};
    shard::Zero::NextUse next_use = shard::Zero::NextUse::none;
};

struct ModuleUnits {
    UnitSet own;  // all, without slices of experts
    std::vector<UnitSet> slices;
};

// Returns the units of a module that train.
UnitSet trained_units(shard::Zero& zero, size_t module);

// Returns the units of each module.
std::vector<ModuleUnits> units_by_module(shard::Zero& zero, size_t num_modules);

}  // namespace ringshard::model
