#include "ringshard/shard/zero.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
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

// Returns this rank's shards of the units of one store; those of other units are empty.
std::vector<Range> Zero::cut_shards(Store store) const {
    std::vector<Range> shards;
    for (const FlatUnit& unit : units_) {
        if (store_of(unit) != store)
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
    const int64_t section = unit.num_sections() > 1 ? mesh_.experts().rank() : 0;
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
      chunks_(cut_shards(Store::trained), chunk_of(offloading)),
      frozen_chunks_(cut_shards(Store::frozen), chunk_of(offloading)),
      wide_chunks_(cut_shards(Store::wide), chunk_of(offloading)),
      nf4_chunks_(cut_shards(Store::nf4), chunk_of(offloading)),
      states_(units_.size()) {
    make_weights(offloading);
    make_gradients(offloading);
}

void Zero::make_weights(const Offloading& offloading) {
    compute_ = make_compute_weights(chunks_, Store::trained, offloading);
    if (frozen_chunks_.size() > 0)
        frozen_ = make_compute_weights(frozen_chunks_, Store::frozen, offloading);
    if (wide_chunks_.size() > 0)
        wide_ = make_compute_weights(wide_chunks_, Store::wide, offloading);
    if (nf4_chunks_.size() > 0) nf4_ = make_compute_weights(nf4_chunks_, Store::nf4, offloading);
    if (types_.compute == at::kFloat) return;
    masters_ = offloading.optimizer ? keep_offloaded(chunks_, at::kFloat, *offloading.optimizer)
                                    : keep_in_memory(chunks_, zeros(chunks_, at::kFloat));
}

std::vector<at::Tensor> Zero::zeros(const Chunks& chunks, at::ScalarType type) const {
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < units_.size(); ++unit)
        shards.push_back(at::zeros({chunks.shard(unit).size()}, options(type)));
    return shards;
}

// Where weights are whole at rest, the shards are parts of them.
std::unique_ptr<FlatStore> Zero::make_compute_weights(const Chunks& chunks, Store store,
                                                      const Offloading& offloading) {
    const at::ScalarType type = type_of(store);
    if (cuts_.weights)
        return offloading.weights ? keep_offloaded(chunks, type, *offloading.weights)
                                  : keep_in_memory(chunks, zeros(chunks, type));
    std::vector<at::Tensor> parts = zeros(chunks, type);
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        if (store_of(units_[unit]) != store) continue;
        at::Tensor& whole = states_[unit].whole_weights;
        whole = at::zeros({units_[unit].section_size()}, options(gathered_type(unit)));
        if (whole.scalar_type() != type) continue;
        const Range& shard = chunks.shard(unit);
        parts[unit] = whole.narrow(0, shard.begin - section_of(units_[unit]).begin, shard.size());
    }
    return keep_in_memory(chunks, std::move(parts));
}

Zero::Weights Zero::weights_at_rest_of(size_t unit) const {
    switch (store_of(units_[unit])) {
        case Store::trained: return {chunks_, weight_shards()};
        case Store::frozen: return {frozen_chunks_, *frozen_};
        case Store::wide: return {wide_chunks_, *wide_};
        case Store::nf4: break;
    }
    return {nf4_chunks_, *nf4_};
}

FlatStore& Zero::compute_shards(size_t unit) const {
    if (gathers_masters(unit)) return *masters_;
    return is_trained(unit) ? *compute_ : weights_at_rest_of(unit).shards;
}

std::vector<Zero::Weights> Zero::all_weights() const {
    std::vector<Weights> all{{chunks_, weight_shards()}};
    for (const Weights& frozen : frozen_weights()) all.push_back(frozen);
    return all;
}

std::vector<Zero::Weights> Zero::frozen_weights() const {
    std::vector<Weights> frozen;
    if (frozen_) frozen.push_back({frozen_chunks_, *frozen_});
    if (wide_) frozen.push_back({wide_chunks_, *wide_});
    return frozen;
}

std::vector<Zero::Weights> Zero::nf4_weights() const {
    if (!nf4_) return {};
    return {{nf4_chunks_, *nf4_}};
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

size_t Zero::num_adapters() const {
    size_t most = 1;
    for (const FlatUnit& unit : units_) most = std::max(most, unit.num_adapters());
    return most;
}

void Zero::make_gradients(const Offloading& offloading) {
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        at::Tensor& whole = states_[unit].whole_gradient;
        if (!cuts_.gradients && is_trained(unit))
            whole = at::zeros({units_[unit].section_size()}, options(at::kFloat));
        if (cuts_.gradients && offloading.optimizer) continue;
        const bool is_whole = !cuts_.optimizer && is_trained(unit);
        shards.push_back(is_whole ? whole
                                  : at::zeros({chunks_.shard(unit).size()}, options(at::kFloat)));
    }
    gradients_ = cuts_.gradients && offloading.optimizer
                     ? keep_offloaded(chunks_, at::kFloat, *offloading.optimizer)
                     : keep_in_memory(chunks_, std::move(shards));
}

void Zero::begin_pass(std::vector<size_t> order) {
    order_ = std::move(order);
    place_ = 0;
}

void Zero::gather(size_t unit) {
    UnitState& state = states_[unit];
    if (state.gathered) return;
    at::Tensor whole =
        weight_buffers_.take(units_[unit].section_size(), options(gathered_type(unit)));
    comm::Pending arriving =
        parts_of(units_[unit]).all_gather(whole, compute_shards(unit).load_shard(unit));
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
            compute_shards(order_[next]).prefetch(order_[next]);
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
    Memory memory{.weights = cuts_.weights ? compute_->bytes() : 0,
                  .gathered = weight_buffers_.bytes(),
                  .gradients = gradient_buffers_.bytes(),
                  .communication = most_bytes_under_way_};
    if (cuts_.weights && frozen_) memory.weights += frozen_->bytes();
    if (cuts_.weights && wide_) memory.weights += wide_->bytes();
    if (cuts_.weights && nf4_) memory.weights += nf4_->bytes();
    if (masters_) memory.weights += masters_->bytes();
    if (cuts_.optimizer) memory.gradients += gradients_->bytes();
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
    if (FlatStore* const rounded = this->rounded(); rounded && !is_rounded_) {
        for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
            const at::Tensor numbers = rounded->load(chunk, Access::overwrite);
            ops::cast(numbers, masters_->load(chunk, Access::read));
            rounded->store(chunk, numbers);
        }
    }
    is_rounded_ = false;

    for (size_t unit = 0; unit < units_.size(); ++unit) {
        UnitState& state = states_[unit];
        RINGSHARD_CHECK(!state.gathered, "{} still holds its old weights", units_[unit].name());
        const bool is_whole_already = !is_trained(unit) && frozen_are_whole_;
        if (cuts_.optimizer && !cuts_.weights && !is_whole_already)
            state.all_gather =
                parts_of(units_[unit])
                    .all_gather(state.whole_weights, compute_shards(unit).load_shard(unit));
        else if (!cuts_.optimizer && gathers_masters(unit))
            state.whole_weights.copy_(masters_->load_shard(unit));
    }
    frozen_are_whole_ = true;
}

}  // namespace ringshard::shard
