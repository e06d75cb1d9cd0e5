#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/base/error.hpp"
#include "ringshard/ops/device_copies.hpp"
#include "ringshard/ops/flat.hpp"
#include "ringshard/shard/zero.hpp"

// The way of gradients: from whole buffers, to which a backward pass adds, to the shards.
namespace ringshard::shard {

UnitTensors::Part Zero::unbegun_gradients(size_t unit) {
    RINGSHARD_CHECK(is_trained(unit), "{} is frozen and has no gradient", units_[unit].name());
    UnitState& state = states_[unit];
    if (!state.whole_gradient.defined()) {
        state.whole_gradient =
            gradient_buffers_.take(units_[unit].section_size(), options(at::kFloat));
        begin_gradient(unit);
    }
    return {&units_[unit], state.whole_gradient, at::kFloat, &state.unbegun};
}

at::Tensor Zero::gradients(size_t unit) {
    const UnitTensors::Part part = unbegun_gradients(unit);
    UnitTensors({part}).begin_all();
    return part.flat;
}

// Zeroes the ranges that no operation overwrites first.
void Zero::begin_gradient(size_t unit) {
    UnitState& state = states_[unit];
    for (const Range& range : units_[unit].begun_with_zeros())
        state.whole_gradient.narrow(0, range.begin, range.size()).zero_();
    state.unbegun = units_[unit].overwritten();
}

// The buffer itself, or a copy of it in the type in which gradients are summed over ranks.
at::Tensor Zero::as_sent(const at::Tensor& gradient) const {
    if (types_.reduce == at::kFloat) return gradient;
    at::Tensor sent = at::empty(gradient.sizes(), options(types_.reduce));
    ops::cast(sent, gradient);
    return sent;
}

void Zero::reduce(size_t unit) {
    if (!cuts_.gradients && !is_last_micro_batch_) return;
    // The reductions of one module, or slice of one, overlap with the backward pass of the
    // next.
    while (!reductions_.empty() && !units_[reductions_.front().unit].comes_with(units_[unit]))
        finish_oldest_reduction();
    start_reduction(unit);
}

void Zero::start_reduction(size_t unit) {
    gradients(unit);  // of which a part may not have begun
    at::Tensor& whole = states_[unit].whole_gradient;
    Reduction reduction{
        .unit = unit, .whole = whole, .sent = as_sent(whole), .is_last = is_last_micro_batch_};
    if (cuts_.optimizer) {
        reduction.part = at::empty({chunks_of(unit).shard(unit).size()}, options(types_.reduce));
        reduction.pending = parts_of(units_[unit]).reduce_scatter(reduction.part, reduction.sent);
    } else {
        reduction.pending = users_of(units_[unit]).all_reduce(reduction.sent);
    }
    if (cuts_.gradients) whole = at::Tensor();
    reductions_.push_back(std::move(reduction));
    record_bytes_under_way();
}

void Zero::finish_oldest_reduction() {
    Reduction& reduction = reductions_.front();
    reduction.pending.wait();
    if (cuts_.optimizer)
        add_to_shard(reduction);
    else if (!reduction.sent.is_same(reduction.whole))
        ops::cast(reduction.whole, reduction.sent);
    states_[reduction.unit].has_gradient = true;
    if (cuts_.gradients) gradient_buffers_.give_back(std::move(reduction.whole));
    reductions_.pop_front();
}

// Counts the buffers that exist for messages alone.
void Zero::record_bytes_under_way() {
    int64_t bytes = 0;
    for (const Reduction& reduction : reductions_) {
        if (reduction.part.defined()) bytes += static_cast<int64_t>(reduction.part.nbytes());
        if (!reduction.sent.is_same(reduction.whole))
            bytes += static_cast<int64_t>(reduction.sent.nbytes());
    }
    most_bytes_under_way_ = std::max(most_bytes_under_way_, bytes);
}

// The first reduction of a step overwrites the shard. After the last one the sum over the copies of
// the model begins, while earlier blocks go backward.
void Zero::add_to_shard(const Reduction& reduction) {
    const size_t unit = reduction.unit;
    UnitState& state = states_[unit];
    state.sums_copies = reduction.is_last && copies_of(units_[unit]).size() > 1;
    const Shelf& shelf = *shelf_of_[unit];
    const Chunks& chunks = shelf.chunks;
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const Range& range = chunks[chunk].range;
        const at::Tensor added =
            reduction.part.narrow(0, range.begin - chunks.shard(unit).begin, range.size());
        const at::Tensor sum =
            shelf.gradients->load(chunk, state.has_gradient ? Access::read : Access::overwrite);
        if (state.has_gradient)
            ops::add(sum, added);
        else
            ops::cast(sum, added);
        if (state.sums_copies)
            start_sum_of_copies(shelf, chunk, sum);
        else
            shelf.gradients->store(chunk, sum);
    }
}

void Zero::start_sum_of_copies(const Shelf& shelf, size_t chunk, at::Tensor numbers) {
    constexpr size_t at_a_time = 2;
    while (sums_of_copies_.size() >= at_a_time) finish_oldest_sum_of_copies();
    const at::Tensor sent = as_sent(numbers);
    comm::Communicator& copies = copies_of(units_[shelf.chunks[chunk].unit]);
    sums_of_copies_.push_back({&shelf, chunk, std::move(numbers), sent, copies.all_reduce(sent)});
}

void Zero::finish_oldest_sum_of_copies() {
    SumOfCopies& sum = sums_of_copies_.front();
    sum.pending.wait();
    if (!sum.sent.is_same(sum.numbers)) ops::cast(sum.numbers, sum.sent);
    sum.shelf->gradients->store(sum.chunk, sum.numbers);
    sums_of_copies_.pop_front();
}

// Starts the sums of units whose last reduction has not started them.
void Zero::sum_other_copies() {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        if (!is_trained(unit) || copies_of(units_[unit]).size() == 1 || states_[unit].sums_copies)
            continue;
        const Shelf& shelf = *shelf_of_[unit];
        for (size_t chunk = shelf.chunks.first_of(unit); chunk < shelf.chunks.end_of(unit); ++chunk)
            start_sum_of_copies(shelf, chunk, shelf.gradients->load(chunk, Access::read));
    }
    while (!sums_of_copies_.empty()) finish_oldest_sum_of_copies();
}

void Zero::finish_gradients() {
    while (!reductions_.empty()) finish_oldest_reduction();
    // Callers without begin_last_micro_batch().
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        if (cuts_.gradients || states_[unit].has_gradient || !is_trained(unit)) continue;
        start_reduction(unit);
        finish_oldest_reduction();
    }
    for (size_t unit = 0; unit < units_.size(); ++unit)
        RINGSHARD_CHECK(!is_trained(unit) || states_[unit].has_gradient,
                        "{} has the gradient of an earlier step", units_[unit].name());
    if (cuts_.optimizer) sum_other_copies();
}

void Zero::clear_gradients() {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
        UnitState& state = states_[unit];
        state.has_gradient = false;
        state.sums_copies = false;
        if (!cuts_.gradients && state.whole_gradient.defined()) begin_gradient(unit);
    }
    is_last_micro_batch_ = false;
}

at::Tensor Zero::sum_gradient_squares() const {
    std::vector<at::Tensor> squares(num_variants());
    for (size_t unit = 0; unit < units_.size(); ++unit)
        if (is_trained(unit)) add_gradient_squares(unit, squares);
    for (at::Tensor& sum : squares)
        sum = sum.defined() ? sum.view({1}) : at::zeros({1}, options(at::kDouble));
    return squares.size() == 1 ? squares.front() : at::cat(squares);
}

void Zero::add_gradient_squares(size_t unit, std::vector<at::Tensor>& squares) const {
    const auto& [placement, chunks, weights, masters, gradients] = *shelf_of_[unit];
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const Range& range = chunks[chunk].range;
        const Range mine = intersect(exclusive_range(unit), range);
        if (mine.size() == 0) continue;
        const at::Tensor gradient = gradients->load(chunk, Access::read);
        for (size_t variant = 0; variant < units_[unit].num_variants(); ++variant) {
            const Range part = intersect(mine, units_[unit].variant_range(variant));
            if (part.size() == 0) continue;
            const at::Tensor more =
                ops::sum_of_squares(gradient.narrow(0, part.begin - range.begin, part.size()));
            at::Tensor& sum = squares[variant];
            sum = sum.defined() ? sum.add_(more) : more;
        }
    }
}

std::vector<double> Zero::gradient_squares() const {
    const at::Tensor here = ops::on_host(sum_gradient_squares());
    const auto* const sums = here.const_data_ptr<double>();
    return {sums, sums + here.numel()};
}

}  // namespace ringshard::shard
