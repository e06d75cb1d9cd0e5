#include <algorithm>
#include <tuple>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::shard {

void UnitLayout::freeze(const std::set<std::string>& names) {
    for (ParameterGroup& group : groups_) {
        const auto frozen = std::ranges::count_if(
            group.tensors, [&](const TensorSpec& tensor) { return names.contains(tensor.name); });
        RINGSHARD_CHECK(frozen == 0 || frozen == std::ssize(group.tensors),
                        "{}: a group of tensors is frozen in part: {}", module_name_,
                        group.tensors.front().name);
        if (frozen > 0) group.placement.is_trained = false;
    }
}

void UnitLayout::set_codec(Codec codec) {
    for (ParameterGroup& group : groups_)
        if (!group.placement.is_trained && group.is_quantisable()) group.placement.codec = codec;
}

void UnitLayout::choose_updates(const ChooseUpdate& choose) {
    for (ParameterGroup& group : groups_) {
        if (!group.placement.is_trained) continue;
        const UpdateChoice choice = choose(group);
        group.placement.updater = choice.updater;
        group.placement.grain = choice.grain;
        group.placement.keeps_masters = choice.keeps_masters;
    }
}

void UnitLayout::set_rules(const std::map<std::string, size_t>& rules) {
    for (ParameterGroup& group : groups_)
        if (const auto rule = rules.find(group.tensors.front().name); rule != rules.end())
            group.rule = rule->second;
}

namespace {

std::string ending_of(const Placement& placement) {
    std::string ending;
    if (placement.is_trained && placement.updater > 0)
        ending = format_text(" (optimizer {})", placement.updater);
    if (placement.codec == Codec::int8) return ending + " (in eight bits)";
    if (placement.is_coded()) return ending + " (in four bits)";
    if (placement.codec == Codec::compute)
        return ending + (placement.is_trained ? "" : " (frozen)");
    return ending + (placement.is_trained ? " (trained in fp32)" : " (in fp32)");
}

// Returns the placements of these groups, trained ones first.
std::vector<Placement> placements_of(const std::vector<ParameterGroup>& groups, bool are_divided,
                                     int64_t num_sections) {
    std::vector<Placement> placements;
    for (const ParameterGroup& group : groups) {
        if (group.is_divided != are_divided) continue;
        Placement placement = group.placement;
        placement.num_sections = num_sections;
        if (std::ranges::find(placements, placement) == placements.end())
            placements.push_back(placement);
    }
    std::ranges::stable_sort(placements, {}, [](const Placement& placement) {
        return std::tuple(!placement.is_trained, placement.updater, placement.codec);
    });
    return placements;
}

}  // namespace

std::vector<FlatUnit> UnitLayout::finish(int64_t num_parts, size_t module, int64_t num_sections,
                                         int64_t num_slices) const {
    RINGSHARD_CHECK(num_sections == 1 || num_slices == 1,
                    "{}: what lies in sections is gathered whole", module_name_);
    std::vector<ParameterGroup> groups = groups_;
    if (num_sections == 1 && num_slices == 1)
        for (ParameterGroup& group : groups) group.is_divided = false;  // like the others
    std::vector<FlatUnit> units;
    for (const Placement& placement : placements_of(groups, false, 1))
        units.emplace_back(module_name_ + ending_of(placement), groups, num_parts, placement,
                           module);
    const std::vector<Placement> divided = placements_of(groups, true, num_sections);
    for (const Placement& placement : divided)
        if (num_sections > 1)
            units.emplace_back(
                format_text("{}{} (in sections)", module_name_, ending_of(placement)), groups,
                num_parts, placement, module);
    for (int64_t slice = 0; num_slices > 1 && slice < num_slices; ++slice)
        for (const Placement& placement : divided)
            units.emplace_back(
                format_text("{}{} (slice {})", module_name_, ending_of(placement), slice), groups,
                num_parts, placement, module, FlatUnit::Slice{slice, num_slices});
    return units;
}

ParameterId UnitLayout::add(ParameterGroup group) {
    for (TensorSpec& tensor : group.tensors) tensor.name.insert(0, prefix_);
    groups_.push_back(std::move(group));
    return {groups_.size() - 1};
}

}  // namespace ringshard::shard
