#include "unit_set.hpp"

namespace ringshard::model {

shard::UnitTensors UnitSet::weights() const {
    std::vector<shard::UnitTensors::Part> parts;
    for (const size_t unit : units_)
        parts.push_back({&zero_->units()[unit], zero_->weights(unit), zero_->compute_type()});
    return shard::UnitTensors(std::move(parts));
}

void UnitSet::release(shard::Zero::NextUse next_use) const {
    for (const size_t unit : units_) zero_->release(unit, next_use);
}

shard::UnitTensors UnitSet::gradients() const {
    std::vector<shard::UnitTensors::Part> parts;
    for (const size_t unit : units_)
        if (zero_->is_trained(unit)) parts.push_back(zero_->unbegun_gradients(unit));
    return shard::UnitTensors(std::move(parts));
}

void UnitSet::reduce() const {
    for (const size_t unit : units_)
        if (zero_->is_trained(unit)) zero_->reduce(unit);
}

UnitSet trained_units(shard::Zero& zero, size_t module) {
    std::vector<size_t> units;
    for (size_t unit = 0; unit < zero.num_units(); ++unit)
        if (zero.units()[unit].module() == module && zero.is_trained(unit)) units.push_back(unit);
    return {zero, std::move(units)};
}

std::vector<ModuleUnits> units_by_module(shard::Zero& zero, size_t num_modules) {
    std::vector<std::vector<std::vector<size_t>>> by_stage(num_modules, {{}});
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        std::vector<std::vector<size_t>>& stages = by_stage.at(zero.units()[unit].module());
        const auto stage = static_cast<size_t>(zero.units()[unit].stage());
        if (stages.size() <= stage) stages.resize(stage + 1);
        stages[stage].push_back(unit);
    }
    std::vector<ModuleUnits> modules;
    for (std::vector<std::vector<size_t>>& stages : by_stage) {
        ModuleUnits& module = modules.emplace_back(UnitSet(zero, std::move(stages.front())));
        for (size_t stage = 1; stage < stages.size(); ++stage)
            module.slices.emplace_back(zero, std::move(stages[stage]));
    }
    return modules;
}

}  // namespace ringshard::model
