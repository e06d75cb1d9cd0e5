#include "ringshard/shard/zero.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "ringshard/ops/flat.hpp"

namespace ringshard::shard {

at::Tensor Zero::Pool::take(int64_t size, const at::TensorOptions& options) {
    const auto found = free_.find(size);
    if (found == free_.end()) return at::empty({size}, options);
    at::Tensor buffer = std::move(found->second);
    free_.erase(found);
    return buffer;
}

void Zero::Pool::give_back(at::Tensor buffer) { free_.emplace(buffer.numel(), std::move(buffer)); }

at::TensorOptions Zero::options(at::ScalarType type) const {
    return at::TensorOptions(mesh_.device()).dtype(type);
}

Zero::Zero(std::vector<FlatUnit> units, const mesh::Cuts& cuts, const Types& types,
           const mesh::Mesh& mesh)
    : units_(std::move(units)), cuts_(cuts), types_(types), mesh_(mesh), states_(units_.size()) {
    const bool computes_in_masters = types.compute == at::kFloat;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        UnitState& state = states_[unit];
        const int64_t size = units_[unit].size();
        Shard& shard = state.shard;
        shard.range =
            cuts.optimizer ? part_of(size, mesh.zero().rank(), mesh.zero().size()) : Range{0, size};

        if (cuts.weights) {
            state.compute_shard = at::zeros({shard.range.size()}, options(types.compute));
        } else {
            state.whole_weights = at::zeros({size}, options(types.compute));
            state.compute_shard =
                state.whole_weights.narrow(0, shard.range.begin, shard.range.size());
        }
        shard.weights = computes_in_masters ? state.compute_shard
                                            : at::zeros({shard.range.size()}, options(at::kFloat));
        if (!computes_in_masters) shard.rounded = state.compute_shard;

        if (!cuts.gradients) state.whole_gradient = at::zeros({size}, options(at::kFloat));
        shard.gradient = cuts.optimizer ? at::zeros({shard.range.size()}, options(at::kFloat))
                                        : state.whole_gradient;
    }
}

void Zero::prefetch(size_t unit) {
    UnitState& state = states_[unit];
    if (!cuts_.weights || state.gathered) return;
    at::Tensor whole = weight_buffers_.take(units_[unit].size(), options(types_.compute));
    comm::Pending arriving = mesh_.zero().all_gather(whole, state.compute_shard);
    state.gathered = Gathered{std::move(whole), std::move(arriving)};
}

at::Tensor Zero::weights(size_t unit) {
    if (!cuts_.weights) return states_[unit].whole_weights;
    prefetch(unit);
    states_[unit].gathered->arriving.wait();
    return states_[unit].gathered->whole;
}

void Zero::release(size_t unit, NextUse next_use) {
    UnitState& state = states_[unit];
    const bool stays = next_use == NextUse::backward && cuts_.keeps_weights_after_forward;
    if (!cuts_.weights || stays) return;
    RINGSHARD_CHECK(state.gathered, units_[unit].name(), " is released and was not gathered");
    state.gathered->arriving.wait();
    weight_buffers_.give_back(std::move(state.gathered->whole));
    state.gathered.reset();
}

at::Tensor Zero::gradients(size_t unit) {
    UnitState& state = states_[unit];
    if (!state.whole_gradient.defined()) {
        state.whole_gradient = gradient_buffers_.take(units_[unit].size(), options(at::kFloat));
        state.whole_gradient.zero_();
    }
    return state.whole_gradient;
}

// The buffer itself, or a copy of it in the type in which gradients are summed over ranks.
at::Tensor Zero::as_sent(const at::Tensor& gradient) const {
    if (types_.reduce == at::kFloat) return gradient;
    at::Tensor sent = at::empty(gradient.sizes(), options(types_.reduce));
    ops::cast(sent, gradient);
    return sent;
}

void Zero::start_reduction(size_t unit, const at::Tensor& whole) {
    Reduction reduction{
        unit, whole, at::empty({states_[unit].shard.range.size()}, options(types_.reduce)), {}};
    reduction.pending = mesh_.zero().reduce_scatter(reduction.part, as_sent(whole));
    reductions_.push_back(std::move(reduction));
}

void Zero::reduce(size_t unit) {
    if (!cuts_.gradients) return;
    // One reduction travels while the next unit's gradient is computed: two buffers in all.
    while (!reductions_.empty()) finish_oldest_reduction();
    start_reduction(unit, std::exchange(states_[unit].whole_gradient, at::Tensor()));
}

void Zero::finish_oldest_reduction() {
    Reduction& reduction = reductions_.front();
    reduction.pending.wait();
    ops::add(states_[reduction.unit].shard.gradient, reduction.part);
    if (cuts_.gradients) gradient_buffers_.give_back(std::move(reduction.whole));
    reductions_.pop_front();
}

void Zero::all_reduce(comm::Communicator& communicator, const std::vector<at::Tensor>& sums) {
    std::vector<at::Tensor> sent;
    std::vector<comm::Pending> pending;
    for (const at::Tensor& sum : sums) {
        sent.push_back(as_sent(sum));
        pending.push_back(communicator.all_reduce(sent.back()));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
        pending[i].wait();
        if (sent[i].data_ptr() != sums[i].data_ptr()) ops::cast(sums[i], sent[i]);
    }
}

void Zero::finish_gradients() {
    while (!reductions_.empty()) finish_oldest_reduction();
    std::vector<at::Tensor> gradients;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        if (cuts_.optimizer && !cuts_.gradients)
            start_reduction(unit, states_[unit].whole_gradient);
        gradients.push_back(states_[unit].shard.gradient);
    }
    while (!reductions_.empty()) finish_oldest_reduction();
    // Nothing cut: over everybody. Else over the copies of the model (hybrid sharding), which saw
    // other data.
    all_reduce(cuts_.optimizer ? mesh_.replicate() : mesh_.world(), gradients);
}

void Zero::clear_gradients() {
    for (UnitState& state : states_) {
        const bool shard_is_whole = !cuts_.optimizer;
        if (!state.shard.gradient_is_clear) state.shard.gradient.zero_();
        state.shard.gradient_is_clear = false;  // from here on it is added to
        if (!cuts_.gradients && !shard_is_whole) state.whole_gradient.zero_();
    }
}

double Zero::gradient_squares() const {
    double squares = 0;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        const Range mine = own_range(unit);
        const Shard& shard = states_[unit].shard;
        squares += ops::sum_of_squares(
            shard.gradient.narrow(0, mine.begin - shard.range.begin, mine.size()));
    }
    return squares;
}

Range Zero::own_range(size_t unit) const {
    const int64_t copies = mesh_.shape().replicate;
    return part_of(units_[unit].size(), mesh_.zero().rank() * copies + mesh_.replicate().rank(),
                   mesh_.zero().size() * copies);
}

void Zero::publish_weights() {
    std::vector<comm::Pending> pending;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        UnitState& state = states_[unit];
        RINGSHARD_CHECK(!state.gathered, units_[unit].name(), " still holds its old weights");
        if (state.shard.rounded.defined() && !state.shard.is_rounded)
            ops::cast(state.shard.rounded, state.shard.weights);
        state.shard.is_rounded = false;
        if (cuts_.optimizer && !cuts_.weights)
            pending.push_back(mesh_.zero().all_gather(state.whole_weights, state.compute_shard));
    }
    for (comm::Pending& operation : pending) operation.wait();
}

}  // namespace ringshard::shard
