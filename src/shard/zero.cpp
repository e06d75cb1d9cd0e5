#include "ringshard/shard/zero.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "ringshard/ops/flat.hpp"

namespace ringshard::shard {

at::Tensor Zero::Pool::take(int64_t size, const at::TensorOptions& options) {
    const auto found = free_.find({size, options.dtype().toScalarType()});
    if (found == free_.end()) {
        at::Tensor made = at::empty({size}, options);
        bytes_ += static_cast<int64_t>(made.nbytes());
        return made;
    }
    at::Tensor buffer = std::move(found->second);
    free_.erase(found);
    return buffer;
}

void Zero::Pool::give_back(at::Tensor buffer) {
    const Kind kind{buffer.numel(), buffer.scalar_type()};
    free_.emplace(kind, std::move(buffer));
}

at::TensorOptions Zero::options(at::ScalarType type) const {
    return at::TensorOptions(mesh_.device()).dtype(type);
}

namespace {

// Elements of a chunk of offloaded state: large enough for the speed of a drive, and small beside
// the state that does not fit into memory.
constexpr int64_t offloaded_chunk = int64_t{1} << 20;

int64_t chunk_of(const Zero::Offloading& offloading) {
    return offloading.any() ? offloaded_chunk : Chunks::whole_shards;
}

}  // namespace

// Returns this rank's shards of the units of one placement; those of other units are empty.
std::vector<Range> Zero::cut_shards(const Placement& placement) const {
    std::vector<Range> shards;
    for (const FlatUnit& unit : units_) {
        if (unit.placement() != placement)
            shards.push_back({0, 0});
        else if (cuts_.optimizer)
            shards.push_back(part_of(unit.size(), part_number(unit),
                                     unit.num_sections() * parts_of(unit).size()));
        else
            shards.push_back(section_of(unit));
    }
    return shards;
}

Range Zero::section_of(const FlatUnit& unit) const {
    const int64_t section = unit.num_sections() > 1 ? mesh_.sections().rank() : 0;
    return part_of(unit.size(), section, unit.num_sections());
}

int64_t Zero::part_number(const FlatUnit& unit) const {
    const comm::Communicator& parts = parts_of(unit);
    return section_of(unit).begin / unit.section_size() * parts.size() + parts.rank();
}

Zero::Zero(std::vector<FlatUnit> units, const mesh::Cuts& cuts, const Types& types,
           const mesh::Mesh& mesh, const Offloading& offloading)
    : units_(std::move(units)),
      cuts_(cuts),
      types_(types),
      mesh_(mesh),
      states_(units_.size()),
      shelf_of_(units_.size()) {
    make_shelves(offloading);
}

at::ScalarType Zero::type_of(const Placement& placement) const {
    if (placement.codec == Codec::fp32) return at::kFloat;
    return placement.is_coded() ? at::kByte : types_.compute;
}

void Zero::make_shelves(const Offloading& offloading) {
    std::vector<Placement> placements;
    for (const FlatUnit& unit : units_)
        if (std::ranges::find(placements, unit.placement()) == placements.end())
            placements.push_back(unit.placement());
    std::ranges::stable_sort(placements, {}, [](const Placement& placement) {
        return std::tuple(!placement.is_trained, placement.updater, placement.codec);
    });
    for (const Placement& placement : placements) {
        Shelf& shelf = shelves_.emplace_back(
            placement, Chunks(cut_shards(placement), chunk_of(offloading)), nullptr);
        for (size_t unit = 0; unit < units_.size(); ++unit)
            if (units_[unit].placement() == placement) shelf_of_[unit] = &shelf;
        shelf.weights = make_weights(shelf, offloading);
        if (!placement.is_trained) continue;
        if (type_of(placement) != at::kFloat || placement.keeps_masters)
            shelf.masters = offloading.optimizer
                                ? keep_offloaded(shelf.chunks, at::kFloat, *offloading.optimizer)
                                : keep_in_memory(shelf.chunks, zeros(shelf.chunks, at::kFloat));
        shelf.gradients = make_gradients(shelf, offloading);
    }
}

std::vector<at::Tensor> Zero::zeros(const Chunks& chunks, at::ScalarType type) const {
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < units_.size(); ++unit)
        shards.push_back(at::zeros({chunks.shard(unit).size()}, options(type)));
    return shards;
}

// Where weights are whole at rest, the shards are parts of them.
std::unique_ptr<FlatStore> Zero::make_weights(const Shelf& shelf, const Offloading& offloading) {
    const at::ScalarType type = type_of(shelf.placement);
    if (cuts_.weights)
        return offloading.weights ? keep_offloaded(shelf.chunks, type, *offloading.weights)
                                  : keep_in_memory(shelf.chunks, zeros(shelf.chunks, type));
    std::vector<at::Tensor> parts;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        if (shelf_of_[unit] != &shelf) {
            parts.push_back(at::empty({0}, options(type)));
            continue;
        }
        at::Tensor& whole = states_[unit].whole_weights;
        whole = at::zeros({units_[unit].section_size()}, options(type));
        const Range& shard = shelf.chunks.shard(unit);
        parts.push_back(
            whole.narrow(0, shard.begin - section_of(units_[unit]).begin, shard.size()));
    }
    return keep_in_memory(shelf.chunks, std::move(parts));
}

std::vector<Zero::Weights> Zero::weights_where(
    const std::function<bool(const Placement&)>& wanted) const {
    std::vector<Weights> found;
    for (const Shelf& shelf : shelves())
        if (wanted(shelf.placement)) found.push_back({shelf.chunks, shelf.exact()});
    return found;
}

std::vector<Zero::Weights> Zero::trained_weights() const {
    return weights_where(&Placement::is_trained);
}

std::vector<Zero::Weights> Zero::frozen_weights() const {
    return weights_where(
        [](const Placement& placement) { return !placement.is_trained && !placement.is_coded(); });
}

std::vector<Zero::Weights> Zero::all_weights() const {
    return weights_where([](const Placement& placement) { return !placement.is_coded(); });
}

std::vector<Zero::Weights> Zero::coded_weights() const {
    return weights_where(&Placement::is_coded);
}

at::Tensor Zero::join_shards(size_t unit, const at::Tensor& of_shard) const {
    if (!cuts_.optimizer) return of_shard;
    comm::Communicator& parts = parts_of(units_[unit]);
    at::Tensor joined = at::empty({of_shard.numel() * parts.size()}, of_shard.options());
    parts.all_gather(joined, of_shard).wait();
    return joined;
}

int64_t Zero::shard_id(size_t unit) const {
    return cuts_.optimizer ? part_number(units_[unit]) : section_id(unit);
}

int64_t Zero::section_id(size_t unit) const {
    return section_of(units_[unit]).begin / units_[unit].section_size();
}

Range Zero::shard_of_rank(size_t unit, int rank) const {
    const FlatUnit& layout = units_[unit];
    const int64_t parts = parts_of(layout).size();
    return part_of(layout.size(), section_id(unit) * parts + rank, layout.num_sections() * parts);
}

size_t Zero::num_variants() const {
    size_t most = 1;
    for (const FlatUnit& unit : units_) most = std::max(most, unit.num_variants());
    return most;
}

std::unique_ptr<FlatStore> Zero::make_gradients(const Shelf& shelf, const Offloading& offloading) {
    if (cuts_.gradients && offloading.optimizer)
        return keep_offloaded(shelf.chunks, at::kFloat, *offloading.optimizer);
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        const bool is_here = shelf_of_[unit] == &shelf;
        at::Tensor& whole = states_[unit].whole_gradient;
        if (!cuts_.gradients && is_here)
            whole = at::zeros({units_[unit].section_size()}, options(at::kFloat));
        const bool is_whole = !cuts_.optimizer && is_here;
        shards.push_back(
            is_whole ? whole : at::zeros({shelf.chunks.shard(unit).size()}, options(at::kFloat)));
    }
    return keep_in_memory(shelf.chunks, std::move(shards));
}

void Zero::begin_pass(std::vector<size_t> order) {
    order_ = std::move(order);
    place_ = 0;
}

void Zero::gather(size_t unit) {
    UnitState& state = states_[unit];
    if (state.gathered) return;
    at::Tensor whole = weight_buffers_.take(units_[unit].section_size(),
                                            options(type_of(units_[unit].placement())));
    comm::Pending arriving =
        parts_of(units_[unit]).all_gather(whole, shelf_of_[unit]->weights->load_shard(unit));
    state.gathered = Gathered{std::move(whole), std::move(arriving)};
}

// Gathers the other units that come with this one and those of the next stage, and reads the unit
// after them.
void Zero::gather_ahead() {
    int stages = 0;
    for (size_t next = place_; next < order_.size(); ++next) {
        if (!units_[order_[next]].comes_with(units_[order_[next - 1]])) ++stages;
        if (stages <= 1)
            gather(order_[next]);
        else if (!states_[order_[next]].gathered)
            shelf_of_[order_[next]]->weights->prefetch(order_[next]);
        if (stages > 1) return;
    }
}

at::Tensor Zero::weights(size_t unit) {
    if (!cuts_.weights) {
        states_[unit].all_gather.wait();
        return states_[unit].whole_weights;
    }
    RINGSHARD_CHECK(place_ < order_.size() && order_[place_] == unit, "{} is out of turn",
                    units_[unit].name());
    gather(unit);
    states_[unit].gathered->arriving.wait();
    ++place_;
    gather_ahead();
    return states_[unit].gathered->whole;
}

void Zero::release(size_t unit, NextUse next_use) {
    UnitState& state = states_[unit];
    const bool stays = next_use == NextUse::backward && cuts_.keeps_weights_after_forward;
    if (!cuts_.weights || stays) return;
    RINGSHARD_CHECK(state.gathered, "{} is released and was not gathered", units_[unit].name());
    state.gathered->arriving.wait();
    weight_buffers_.give_back(std::move(state.gathered->whole));
    state.gathered.reset();
}

Zero::Memory Zero::memory() const {
    const auto bytes = [](const at::Tensor& tensor) {
        return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
    };
    // A shard may be a part of something whole.
    Memory memory{.gathered = weight_buffers_.bytes(),
                  .gradients = gradient_buffers_.bytes(),
                  .communication = most_bytes_under_way_};
    for (const Shelf& shelf : shelves_) {
        if (cuts_.weights) memory.weights += shelf.weights->bytes();
        if (shelf.masters) memory.weights += shelf.masters->bytes();
        if (cuts_.optimizer && shelf.gradients) memory.gradients += shelf.gradients->bytes();
    }
    for (const UnitState& state : states_) {
        memory.weights += bytes(state.whole_weights);
        if (!cuts_.gradients) memory.gradients += bytes(state.whole_gradient);
    }
    return memory;
}

Range Zero::exclusive_range(size_t unit) const {
    const FlatUnit& layout = units_[unit];
    const comm::Communicator& copies = copies_of(layout);
    const int64_t num_parts = layout.num_sections() * parts_of(layout).size();
    return part_of(layout.size(), part_number(layout) * copies.size() + copies.rank(),
                   num_parts * copies.size());
}

// Waits until all updated weights have arrived: call before reading or writing weights outside of a
// pass.
void Zero::wait_for_weights() const {
    for (const UnitState& state : states_) state.all_gather.wait();
}

void Zero::refresh_compute_weights() {
    for (const Shelf& shelf : shelves()) {
        FlatStore* const rounded = shelf.rounded();
        for (size_t chunk = 0; rounded && !is_rounded_ && chunk < shelf.chunks.size(); ++chunk) {
            const at::Tensor numbers = rounded->load(chunk, Access::overwrite);
            ops::cast(numbers, shelf.masters->load(chunk, Access::read));
            rounded->store(chunk, numbers);
        }
    }
    computes_with_masters_ = !is_rounded_;
    is_rounded_ = false;

    for (size_t unit = 0; unit < units_.size(); ++unit) {
        UnitState& state = states_[unit];
        RINGSHARD_CHECK(!state.gathered, "{} still holds its old weights", units_[unit].name());
        const bool is_whole_already = !is_trained(unit) && frozen_are_whole_;
        if (cuts_.optimizer && !cuts_.weights && !is_whole_already)
            state.all_gather =
                parts_of(units_[unit])
                    .all_gather(state.whole_weights, shelf_of_[unit]->weights->load_shard(unit));
    }
    frozen_are_whole_ = true;
}

}  // namespace ringshard::shard
