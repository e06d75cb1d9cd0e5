#include "ringshard/shard/flat_unit.hpp"

#include <algorithm>
#include <numeric>

#include "ringshard/base/error.hpp"

namespace ringshard::shard {

namespace {

constexpr int64_t alignment = 32;  // elements: 64 bytes of bf16

int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

int64_t num_elements(const std::vector<int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

FlatUnit::FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
                   Role role, size_t module)
    : name_(std::move(name)), role_(role), module_(module) {
    enum class Section { decaying, adapter_output, rest };
    const auto section_of = [](const ParameterGroup& group) {
        if (group.is_adapter_output) return Section::adapter_output;
        const bool decays = group.decays || group.tensors.front().shape.size() > 1;
        return decays ? Section::decaying : Section::rest;
    };
    groups_.resize(groups.size());
    const auto place_all = [&](Section section) {
        for (size_t g = 0; g < groups.size(); ++g) {
            if (groups[g].role != role || section_of(groups[g]) != section) continue;
            const std::vector<int64_t>& first = groups[g].tensors.front().shape;
            size_ = round_up(size_, alignment);
            groups_[g] = {size_, first};
            groups_[g].shape[0] = 0;
            for (const TensorSpec& spec : groups[g].tensors) {
                groups_[g].shape[0] += spec.shape[0];
                tensors_.push_back({spec, groups[g].initial, size_, num_elements(spec.shape),
                                    groups[g].is_adapter});
                size_ += tensors_.back().size;
            }
        }
    };
    place_all(Section::decaying);
    matrices_end_ = size_;
    place_all(Section::adapter_output);
    decaying_end_ = size_;
    place_all(Section::rest);
    size_ = round_up(size_, alignment * num_parts);
}

std::vector<TensorPiece> FlatUnit::pieces(const Range& range) const {
    std::vector<TensorPiece> pieces;
    for (const PlacedTensor& tensor : tensors_) {
        const Range part = intersect({tensor.offset, tensor.offset + tensor.size}, range);
        if (part.size() > 0)
            pieces.push_back(
                {&tensor, part.begin - tensor.offset, part.begin - range.begin, part.size()});
    }
    return pieces;
}

at::Tensor FlatUnit::view(const at::Tensor& flat, ParameterId id) const {
    RINGSHARD_CHECK(flat.dim() == 1 && flat.numel() == size_, name_, ": a buffer of ", flat.numel(),
                    " elements for ", size_);
    const PlacedGroup& placed = groups_.at(id.group);
    return flat.narrow(0, placed.offset, num_elements(placed.shape)).view(placed.shape);
}

at::Tensor UnitTensors::operator[](ParameterId id) const {
    for (const Part& part : parts_)
        if (part.unit->holds(id))
            return part.flat.defined() ? part.unit->view(part.flat, id) : at::Tensor();
    return {};
}

std::vector<const void*> UnitTensors::addresses() const {
    std::vector<const void*> addresses;
    for (const Part& part : parts_)
        addresses.push_back(part.flat.defined() ? part.flat.const_data_ptr() : nullptr);
    return addresses;
}

void UnitLayout::freeze(const std::set<std::string>& names) {
    for (ParameterGroup& group : groups_) {
        const auto frozen = std::ranges::count_if(
            group.tensors, [&](const TensorSpec& tensor) { return names.contains(tensor.name); });
        RINGSHARD_CHECK(frozen == 0 || frozen == std::ssize(group.tensors), module_name_,
                        ": a group of tensors is frozen in part: ", group.tensors.front().name);
        if (frozen > 0) group.role = Role::frozen;
    }
}

std::vector<FlatUnit> UnitLayout::finish(int64_t num_parts, size_t module) const {
    const auto has = [&](Role role) {
        return std::ranges::count(groups_, role, &ParameterGroup::role) > 0;
    };
    std::vector<FlatUnit> units;
    if (has(Role::trained))
        units.emplace_back(module_name_, groups_, num_parts, Role::trained, module);
    if (has(Role::frozen))
        units.emplace_back(module_name_ + " (frozen)", groups_, num_parts, Role::frozen, module);
    return units;
}

ParameterId UnitLayout::add(ParameterGroup group) {
    for (TensorSpec& tensor : group.tensors) tensor.name.insert(0, prefix_);
    groups_.push_back(std::move(group));
    return {groups_.size() - 1};
}

}  // namespace ringshard::shard
