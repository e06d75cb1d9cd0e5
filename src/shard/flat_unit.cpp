#include "ringshard/shard/flat_unit.hpp"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <numeric>

#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::shard {

namespace {

int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

int64_t num_elements(const std::vector<int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

constexpr UpdateKind update_kinds[] = {UpdateKind::decaying, UpdateKind::decaying_at_own_rate,
                                       UpdateKind::at_own_rate};

}  // namespace

UpdateKind ParameterGroup::update_kind() const {
    if (update) return *update;
    return tensors.front().shape.size() > 1 ? UpdateKind::decaying : UpdateKind::at_own_rate;
}

bool ParameterGroup::is_quantisable() const {
    return !is_made_by_run && !is_never_quantised && update_kind() == UpdateKind::decaying &&
           (tensors.front().shape.size() == 2 || is_divided);
}

FlatUnit::FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
                   const Placement& placement, size_t module)
    : FlatUnit(std::move(name), groups, num_parts, placement, module, {}) {}

FlatUnit::FlatUnit(std::string name, const std::vector<ParameterGroup>& groups, int64_t num_parts,
                   const Placement& placement, size_t module, Slice slice)
    : name_(std::move(name)), placement_(placement), slice_(slice), module_(module) {
    groups_.resize(groups.size());
    overwritten_.resize(groups.size());
    if (placement_.num_sections > 1)
        place_sections(groups, num_parts);
    else if (slice_.count > 1)
        place_slice(groups, num_parts);
    else
        place_all(groups, num_parts);
}

void FlatUnit::place_all(const std::vector<ParameterGroup>& groups, int64_t num_parts) {
    size_t num_variants = 1;
    size_t num_rules = 1;
    for (const ParameterGroup& group : groups)
        if (is_of_this_unit(group)) {
            num_variants = std::max(num_variants, group.variant + 1);
            num_rules = std::max(num_rules, group.rule + 1);
        }
    for (size_t variant = 0; variant < num_variants; ++variant) {
        const int64_t begin = size_;
        for (size_t rule = 0; rule < num_rules; ++rule)
            for (const UpdateKind kind : update_kinds) place(groups, kind, rule, variant);
        size_ = round_up(size_, placement_.grain * num_parts);
        update_ranges_.back().range.end = size_;
        variants_.push_back({begin, size_});
    }
    place_codes(num_parts);
}

bool FlatUnit::is_of_this_unit(const ParameterGroup& group) const {
    Placement placement = group.placement;
    placement.num_sections = placement_.num_sections;
    const bool is_divided = placement_.num_sections > 1 || slice_.count > 1;
    return placement == placement_ && group.is_divided == is_divided;
}

void FlatUnit::place(const std::vector<ParameterGroup>& groups, UpdateKind kind, size_t rule,
                     size_t variant) {
    const int64_t begin = size_;
    for (size_t g = 0; g < groups.size(); ++g) {
        const std::vector<int64_t>& first = groups[g].tensors.front().shape;
        if (!is_of_this_unit(groups[g]) || groups[g].update_kind() != kind ||
            groups[g].rule != rule || groups[g].variant != variant)
            continue;
        size_ = round_up(size_, placement_.grain);
        groups_[g] = {size_, first, placed_parts_.size()};
        groups_[g].shape[0] = 0;
        overwritten_[g] = groups[g].is_overwritten;
        for (const TensorSpec& spec : groups[g].tensors) {
            groups_[g].shape[0] += spec.shape[0];
            add_tensor(groups[g], spec, variant);
        }
        groups_[g].num_parts = placed_parts_.size() - groups_[g].first_part;
    }
    update_ranges_.push_back({{begin, size_}, kind, rule, variant});
}

void FlatUnit::add_tensor(const ParameterGroup& group, const TensorSpec& spec, size_t variant) {
    const int64_t size = num_elements(spec.shape);
    tensors_.push_back({spec, group.initial, size_, size, group.is_made_by_run, variant});
    add_parts(tensors_.size() - 1, 0, size);
}

// Adds elements of a tensor, as one part or matrix by matrix.
void FlatUnit::add_parts(size_t tensor, int64_t first, int64_t size) {
    const std::vector<int64_t>& shape = tensors_[tensor].spec.shape;
    const int64_t part = placement_.is_coded() ? shape[shape.size() - 2] * shape.back() : size;
    for (int64_t done = 0; done < size; done += part) {
        placed_parts_.push_back({tensor, first + done, size_, part});
        size_ += part;
    }
}

// Every section is filled up by itself, so that its parts are equal too.
void FlatUnit::place_sections(const std::vector<ParameterGroup>& groups, int64_t num_parts) {
    const int64_t count = placement_.num_sections;
    for (int64_t section = 0; section < count; ++section) {
        const int64_t begin = size_;
        place_parts(groups, section, count);
        size_ = begin + round_up(size_ - begin, placement_.grain * num_parts / count);
        update_ranges_.back().range.end = size_;
    }
    variants_ = {{0, size_}};
    place_codes(num_parts);
}

void FlatUnit::place_slice(const std::vector<ParameterGroup>& groups, int64_t num_parts) {
    place_parts(groups, slice_.number, slice_.count);
    size_ = round_up(size_, placement_.grain * num_parts);
    update_ranges_.back().range.end = size_;
    variants_ = {{0, size_}};
    place_codes(num_parts);
}

// Sets the placements of the divided groups, each with an update range.
void FlatUnit::place_parts(const std::vector<ParameterGroup>& groups, int64_t number,
                           int64_t count) {
    const Part part{number, count, size_, placed_parts_.size()};
    for (size_t g = 0; g < groups.size(); ++g) {
        if (!is_of_this_unit(groups[g])) continue;
        size_ = round_up(size_, placement_.grain);
        place_part(g, groups[g], part);
        update_alike(groups[g].update_kind(), groups[g].rule);
    }
}

void FlatUnit::place_part(size_t g, const ParameterGroup& group, const Part& part) {
    const TensorSpec& first = group.tensors.front();
    const bool is_one = group.tensors.size() == 1;
    const int64_t whole = is_one ? first.shape.front() : std::ssize(group.tensors);
    const int64_t count = whole / part.count;
    RINGSHARD_CHECK(count * part.count == whole && group.update_kind() == UpdateKind::decaying,
                    "{}: {} cannot be divided into {} equal parts", name_, first.name, part.count);
    PlacedGroup& placed = groups_[g];
    overwritten_[g] = group.is_overwritten;
    const size_t first_part = placed_parts_.size();
    const size_t first_tensor =
        is_one && !part.is_first() ? placed_parts_[placed.first_part].tensor : tensors_.size();
    placed = {size_ - part.begin, first.shape, first_part - part.first_part};
    placed.shape[0] = is_one ? count : first.shape[0] * count;
    if (is_one) {
        const int64_t size = num_elements(first.shape);
        if (part.is_first())
            tensors_.push_back({.spec = first,
                                .initial = group.initial,
                                .offset = size_,
                                .size = size,
                                .is_made_by_run = group.is_made_by_run,
                                .begins_before = part.number > 0});
        add_parts(first_tensor, size / part.count * part.number, size / part.count);
    } else {
        const size_t from = narrow<size_t>(part.number * count);
        for (size_t t = from; t < from + narrow<size_t>(count); ++t)
            add_tensor(group, group.tensors[t], 0);
    }
    placed.num_parts = placed_parts_.size() - first_part;
}

// Adds a range up to the end of the buffer, or prolongs the last one.
void FlatUnit::update_alike(UpdateKind kind, size_t rule) {
    if (update_ranges_.empty() || update_ranges_.back().kind != kind ||
        update_ranges_.back().rule != rule) {
        const int64_t begin = update_ranges_.empty() ? 0 : update_ranges_.back().range.end;
        update_ranges_.push_back({{begin, begin}, kind, rule, 0});
    }
    update_ranges_.back().range.end = size_;
}

// In four bits the parts of the buffer begin with blocks, since the alignment is that of a block's
// codes. All sections hold matrices of the same sizes.
void FlatUnit::place_codes(int64_t num_parts) {
    static_assert(Placement::least_grain == ops::nf4_block_bytes);
    if (!placement_.is_coded()) return;
    const int64_t sections = placement_.num_sections;
    const size_t in_section = placed_parts_.size() / narrow<size_t>(sections);
    std::vector<CodeLayout::MatrixSize> sizes;
    for (size_t part = 0; part < in_section; ++part)
        sizes.push_back(
            {placed_parts_[part].size, tensors_[placed_parts_[part].tensor].spec.shape.back()});
    codes_.emplace(placement_.codec, sizes);
    const int64_t section_bytes =
        round_up(codes_->bytes(), placement_.grain * num_parts / sections);
    const int64_t section_weights = section_bytes * codes_->weights_of_byte();
    for (size_t part = placed_parts_.size();
         part-- > 0;) {  // the first part of a tensor comes last
        const int64_t begin = section_weights * narrow<int64_t>(part / in_section);
        placed_parts_[part].offset = tensors_[placed_parts_[part].tensor].offset =
            begin + codes_->first_weight(part % in_section);
    }
    size_ = sections * section_bytes;
    update_ranges_ = {{{0, size_}, UpdateKind::decaying, 0, 0}};
    variants_ = {{0, size_}};
}

std::vector<TensorPiece> FlatUnit::pieces(const Range& range) const {
    const int64_t weights = codes_ ? codes_->weights_of_byte() : 1;  // of an element
    const Range of_weights{range.begin * weights, range.end * weights};
    std::vector<TensorPiece> pieces;
    for (const auto& [tensor, first, offset, size] : placed_parts_) {
        const Range part = intersect({offset, offset + size}, of_weights);
        if (part.size() > 0)
            pieces.push_back({&tensors_[tensor], first + part.begin - offset,
                              part.begin - of_weights.begin, part.size()});
    }
    return pieces;
}

at::Tensor FlatUnit::view(const at::Tensor& flat, ParameterId id, at::ScalarType type,
                          const Slice& slice) const {
    RINGSHARD_CHECK(flat.dim() == 1 && flat.numel() == section_size(),
                    "{}: a buffer of {} elements for {}", name_, flat.numel(), section_size());
    const PlacedGroup& placed = groups_.at(id.group);
    if (codes_) return dense(flat, placed, type, slice);
    std::vector<int64_t> shape = placed.shape;
    shape[0] /= slice.count;
    const int64_t place = placed.offset + slice.number * num_elements(shape);
    // One operation in place of narrow() and view(): small models feel it.
    return at::as_strided(flat, shape, c10::contiguous_strides(shape),
                          flat.storage_offset() + place);
}

at::Tensor FlatUnit::dense(const at::Tensor& flat, const PlacedGroup& group, at::ScalarType type,
                           const Slice& slice) const {
    std::vector<int64_t> shape = group.shape;
    shape[0] /= slice.count;
    const at::Tensor weights = at::empty({num_elements(shape)}, flat.options().dtype(type));
    const size_t count = group.num_parts / narrow<size_t>(slice.count);
    const size_t first = group.first_part + narrow<size_t>(slice.number) * count;
    int64_t done = 0;
    for (size_t part = first; part < first + count; ++part) {
        const int64_t size = placed_parts_[part].size;
        codes_->dequantize(weights.narrow(0, done, size), flat, part);
        done += size;
    }
    return weights.view(shape);
}

std::vector<Range> FlatUnit::begun_with_zeros() const {
    std::vector<Range> ranges;
    int64_t end = 0;
    const auto add_until = [&](int64_t begin) {
        if (begin > end) ranges.push_back({end, begin});
    };
    for (size_t g = 0; g < groups_.size(); ++g) {  // groups that agree in this lie in their order
        if (!overwritten_[g]) continue;
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

at::Tensor UnitTensors::slice(ParameterId id, const FlatUnit::Slice& slice) const {
    const Part* const part = find(id);
    return part == nullptr ? at::Tensor() : part->unit->view(part->flat, id, part->type, slice);
}

bool UnitTensors::is_coded(ParameterId id) const {
    const Part* const part = find(id);
    return part != nullptr && part->unit->codes() != nullptr;
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

}  // namespace ringshard::shard
