#include "ringshard/shard/flat_unit.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"

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
                   UnitKind kind, size_t module)
    : name_(std::move(name)), kind_(kind), module_(module) {
    groups_.resize(groups.size());
    begun_by_products_.resize(groups.size());
    if (kind_.num_sections > 1)
        place_experts(groups, num_parts);
    else if (kind_.num_slices > 1)
        place_slice(groups, num_parts);
    else
        place_all(groups, num_parts);
}

void FlatUnit::place_all(const std::vector<ParameterGroup>& groups, int64_t num_parts) {
    size_t num_adapters = 1;
    for (const ParameterGroup& group : groups)
        if (kind_.role == Role::trained) num_adapters = std::max(num_adapters, group.adapter + 1);
    for (size_t adapter = 0; adapter < num_adapters; ++adapter) {
        place(groups, UpdateKind::decaying, adapter);
        place(groups, UpdateKind::adapter_output, adapter);
        place(groups, UpdateKind::rest, adapter);
        size_ = round_up(size_, alignment * num_parts);
        update_ranges_.back().range.end = size_;
    }
    place_in_four_bits(num_parts);
}

FlatUnit::UpdateKind FlatUnit::kind_of(const ParameterGroup& group) {
    if (group.is_adapter_output) return UpdateKind::adapter_output;
    const bool decays = group.decays || (group.tensors.front().shape.size() > 1 && !group.is_bias);
    return decays ? UpdateKind::decaying : UpdateKind::rest;
}

bool FlatUnit::is_of_this_kind(const ParameterGroup& group) const {
    return group.role == kind_.role && group.form == kind_.form &&
           group.is_of_experts == kind_.is_of_experts();
}

void FlatUnit::place(const std::vector<ParameterGroup>& groups, UpdateKind kind, size_t adapter) {
    const int64_t begin = size_;
    for (size_t g = 0; g < groups.size(); ++g) {
        const std::vector<int64_t>& first = groups[g].tensors.front().shape;
        if (!is_of_this_kind(groups[g]) || kind_of(groups[g]) != kind ||
            groups[g].adapter != adapter)
            continue;
        size_ = round_up(size_, alignment);
        groups_[g] = {size_, first, tensors_.size(), groups[g].tensors.size()};
        groups_[g].shape[0] = 0;
        begun_by_products_[g] = groups[g].begins_with_product;
        for (const TensorSpec& spec : groups[g].tensors) {
            groups_[g].shape[0] += spec.shape[0];
            add_tensor(groups[g], spec, adapter);
        }
    }
    update_ranges_.push_back({{begin, size_}, kind, adapter});
}

void FlatUnit::add_tensor(const ParameterGroup& group, const TensorSpec& spec, size_t adapter) {
    const int64_t size = num_elements(spec.shape);
    tensors_.push_back({spec, group.initial, size_, size, group.is_adapter, adapter});
    placements_.push_back({tensors_.size() - 1, 0, size_, size});
    size_ += size;
}

// Every section is filled up by itself, so that its parts are equal too.
void FlatUnit::place_experts(const std::vector<ParameterGroup>& groups, int64_t num_parts) {
    for (int64_t section = 0; section < kind_.num_sections; ++section) {
        const int64_t begin = size_;
        for (size_t g = 0; g < groups.size(); ++g) {
            if (!is_of_this_kind(groups[g])) continue;
            size_ = round_up(size_, alignment);
            place_part(g, groups[g], {section, kind_.num_sections, section == 0}, begin);
        }
        size_ = begin + round_up(size_ - begin, alignment * num_parts / kind_.num_sections);
    }
    all_decays();
}

void FlatUnit::place_slice(const std::vector<ParameterGroup>& groups, int64_t num_parts) {
    for (size_t g = 0; g < groups.size(); ++g) {
        if (!is_of_this_kind(groups[g])) continue;
        size_ = round_up(size_, alignment);
        place_part(g, groups[g], {kind_.slice, kind_.num_slices, true}, 0);
    }
    size_ = round_up(size_, alignment * num_parts);
    all_decays();
    place_in_four_bits(num_parts);
}

void FlatUnit::place_part(size_t g, const ParameterGroup& group, const Part& part, int64_t begin) {
    const TensorSpec& first = group.tensors.front();
    const bool is_one = group.tensors.size() == 1;
    const int64_t whole = is_one ? first.shape.front() : std::ssize(group.tensors);
    const int64_t count = whole / part.count;
    RINGSHARD_CHECK(count * part.count == whole && kind_of(group) == UpdateKind::decaying,
                    "{}: {} is not of experts in {} equal parts", name_, first.name, part.count);
    PlacedGroup& placed = groups_[g];
    begun_by_products_[g] = group.begins_with_product;
    if (is_one) {
        const int64_t size = num_elements(first.shape);
        if (part.is_first) {
            placed = {size_ - begin, first.shape, tensors_.size(), 1};
            placed.shape[0] = count;
            tensors_.push_back({.spec = first,
                                .initial = group.initial,
                                .offset = size_,
                                .size = size,
                                .begins_before = part.number > 0});
        }
        placements_.push_back(
            {placed.first_tensor, size / part.count * part.number, size_, size / part.count});
        size_ += size / part.count;
        return;
    }
    placed = {size_ - begin, first.shape, tensors_.size(), narrow<size_t>(count)};
    placed.shape[0] *= count;
    const size_t from = narrow<size_t>(part.number * count);
    for (size_t t = from; t < from + narrow<size_t>(count); ++t)
        add_tensor(group, group.tensors[t], 0);
}

// The parts of the buffer begin with blocks, since the alignment is that of a block's codes.
void FlatUnit::place_in_four_bits(int64_t num_parts) {
    static_assert(alignment == ops::nf4_block_bytes);
    if (kind_.form == Form::numbers || kind_.form == Form::wide) return;
    const auto scales =
        kind_.form == Form::nf4 ? Nf4Layout::Scales::plain : Nf4Layout::Scales::nested;
    std::vector<int64_t> sizes;
    for (const PlacedTensor& tensor : tensors_) sizes.push_back(tensor.size);
    nf4_.emplace(scales, sizes);
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor)
        placements_[tensor].offset = tensors_[tensor].offset =
            nf4_->first_block(tensor) * ops::nf4_block;
    size_ = round_up(nf4_->bytes(), alignment * num_parts);
    all_decays();
}

void FlatUnit::all_decays() {
    update_ranges_ = {{{0, size_}, UpdateKind::decaying, 0},
                      {{size_, size_}, UpdateKind::adapter_output, 0},
                      {{size_, size_}, UpdateKind::rest, 0}};
}

std::vector<TensorPiece> FlatUnit::pieces(const Range& range) const {
    const int64_t weights = nf4_ ? 2 : 1;  // of an element
    const Range of_weights{range.begin * weights, range.end * weights};
    std::vector<TensorPiece> pieces;
    for (const auto& [tensor, first, offset, size] : placements_) {
        const Range part = intersect({offset, offset + size}, of_weights);
        if (part.size() > 0)
            pieces.push_back({&tensors_[tensor], first + part.begin - offset,
                              part.begin - of_weights.begin, part.size()});
    }
    return pieces;
}

at::Tensor FlatUnit::view(const at::Tensor& flat, ParameterId id, at::ScalarType type) const {
    RINGSHARD_CHECK(flat.dim() == 1 && flat.numel() == section_size(),
                    "{}: a buffer of {} elements for {}", name_, flat.numel(), section_size());
    const PlacedGroup& placed = groups_.at(id.group);
    if (nf4_) return dense(flat, placed, type);
    return flat.narrow(0, placed.offset, num_elements(placed.shape)).view(placed.shape);
}

at::Tensor FlatUnit::dense(const at::Tensor& flat, const PlacedGroup& group,
                           at::ScalarType type) const {
    at::Tensor weights = at::empty(group.shape, flat.options().dtype(type));
    int64_t row = 0;
    for (size_t tensor = group.first_tensor; tensor < group.first_tensor + group.num_tensors;
         ++tensor) {
        const int64_t rows = tensors_[tensor].spec.shape.front();
        ops::dequantize_nf4(weights.narrow(0, row, rows), nf4_->matrix(flat, tensor));
        row += rows;
    }
    return weights;
}

std::vector<Range> FlatUnit::begun_with_zeros() const {
    std::vector<Range> ranges;
    int64_t end = 0;
    const auto add_until = [&](int64_t begin) {
        if (begin > end) ranges.push_back({end, begin});
    };
    for (size_t g = 0; g < groups_.size(); ++g) {  // groups that agree in this lie in their order
        if (!begun_by_products_[g]) continue;
        add_until(groups_[g].offset);
        end = groups_[g].offset + num_elements(groups_[g].shape);
    }
    add_until(section_size());
    return ranges;
}

const UnitTensors::Part* UnitTensors::find(ParameterId id) const {
    for (const Part& part : parts_)
        if (part.unit->holds(id)) return part.flat.defined() ? &part : nullptr;
    return nullptr;
}

at::Tensor UnitTensors::operator[](ParameterId id) const {
    const auto [numbers, begins] = sum(id);
    if (begins) numbers.zero_();
    return numbers;
}

UnitTensors::Sum UnitTensors::sum(ParameterId id) const {
    const Part* const part = find(id);
    if (part == nullptr) return {{}, false};
    const bool begins = part->unbegun != nullptr && part->unbegun->at(id.group);
    if (begins) part->unbegun->at(id.group) = false;
    return {part->unit->view(part->flat, id, part->type), begins};
}

UnitTensors UnitTensors::joined(const UnitTensors& others) const {
    std::vector<Part> parts = parts_;
    parts.insert(parts.end(), others.parts_.begin(), others.parts_.end());
    return UnitTensors(std::move(parts));
}

void UnitTensors::begin_all() const {
    for (const Part& part : parts_)
        for (size_t group = 0; part.unbegun != nullptr && group < part.unbegun->size(); ++group)
            if (part.unbegun->at(group)) (*this)[{group}];
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
        RINGSHARD_CHECK(frozen == 0 || frozen == std::ssize(group.tensors),
                        "{}: a group of tensors is frozen in part: {}", module_name_,
                        group.tensors.front().name);
        if (frozen > 0) group.role = Role::frozen;
    }
}

void UnitLayout::set_form(Form form) {
    for (ParameterGroup& group : groups_)
        if (group.role == Role::frozen && !group.is_adapter && !group.is_bias &&
            group.tensors.front().shape.size() == 2)
            group.form = form;
}

std::vector<FlatUnit> UnitLayout::finish(int64_t num_parts, size_t module, int64_t ranks_of_experts,
                                         int64_t slices_of_experts) const {
    RINGSHARD_CHECK(ranks_of_experts == 1 || slices_of_experts == 1,
                    "{}: ranks share the experts, so they are in no slices", module_name_);
    std::vector<ParameterGroup> groups = groups_;
    if (ranks_of_experts == 1 && slices_of_experts == 1)
        for (ParameterGroup& group : groups) group.is_of_experts = false;  // like the others
    std::vector<FlatUnit> units;
    const auto add = [&](const UnitKind& kind, const std::string& ending) {
        const auto is_of_kind = [&](const ParameterGroup& group) {
            return group.role == kind.role && group.form == kind.form &&
                   group.is_of_experts == kind.is_of_experts();
        };
        if (std::ranges::any_of(groups, is_of_kind))
            units.emplace_back(module_name_ + ending, groups, num_parts, kind, module);
    };
    add({Role::trained, Form::numbers}, "");
    add({Role::trained, Form::wide}, " (trained in fp32)");
    add({Role::frozen, Form::numbers}, " (frozen)");
    add({Role::frozen, Form::wide}, " (in fp32)");
    add({Role::frozen, Form::nf4}, " (in four bits)");
    add({Role::frozen, Form::nested_nf4}, " (in four bits)");
    if (ranks_of_experts > 1) {
        add({Role::trained, Form::numbers, ranks_of_experts}, " (experts)");
        add({Role::frozen, Form::numbers, ranks_of_experts}, " (frozen experts)");
    }
    for (int64_t slice = 0; slices_of_experts > 1 && slice < slices_of_experts; ++slice) {
        const std::string name = format_text(" (slice {} of its experts)", slice);
        add({Role::trained, Form::numbers, 1, slice, slices_of_experts}, name);
        for (const Form form : {Form::numbers, Form::nf4, Form::nested_nf4})
            add({Role::frozen, form, 1, slice, slices_of_experts}, name);
    }
    return units;
}

ParameterId UnitLayout::add(ParameterGroup group) {
    for (TensorSpec& tensor : group.tensors) tensor.name.insert(0, prefix_);
    groups_.push_back(std::move(group));
    return {groups_.size() - 1};
}

}  // namespace ringshard::shard
