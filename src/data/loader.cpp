#include "ringshard/data/loader.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"

namespace ringshard::data {

Loader::Loader(const Rows& rows, const SamplerOptions& sampler, int64_t data_rank,
               int64_t accumulation)
    : rows_(rows), sampler_(sampler), data_rank_(data_rank), accumulation_(accumulation) {
    RINGSHARD_CHECK(sampler.num_rows == rows.size());
}

Loader::~Loader() = default;

int64_t Loader::steps_per_epoch() const {
    return (sampler_.batches_per_rank() + accumulation_ - 1) / accumulation_;
}

void Loader::draw_order(int64_t epoch) {
    if (order_epoch_ == epoch) return;
    order_.reset();  // before the next order is drawn, so that memory never holds two
    order_.emplace(sampler_, epoch);
    order_epoch_ = epoch;
}

Loader::Step Loader::read_step(LoaderState state) {
    draw_order(state.epoch);
    // The epoch may have more rows in the layout in which it began: with dataloader_drop_last their
    // number depends on the rows of a micro-batch of all ranks.
    if (state.samples_done >= order_->size()) {
        state = {state.epoch + 1, 0};
        draw_order(state.epoch);
    }
    const auto num_samples = order_->size();
    Step step;
    const int64_t first = state.samples_done;
    for (int64_t micro = 0; micro < accumulation_ && state.samples_done < num_samples; ++micro) {
        const int64_t begin =
            std::min(num_samples, state.samples_done + data_rank_ * sampler_.batch_size);
        const int64_t end = std::min(num_samples, begin + sampler_.batch_size);
        FlatBatch& batch =
            step.micro_batches.emplace_back(flatten(rows_, order_->part(begin, end)));
        if (sampler_.counts_padding_to > 0) batch.count_padding(sampler_.counts_padding_to);
        state.samples_done =
            std::min(num_samples, state.samples_done + sampler_.batch_size * sampler_.num_ranks);
    }
    step.rows = order_->part(first, state.samples_done);
    step.after = state.samples_done >= num_samples ? LoaderState{state.epoch + 1, 0} : state;
    return step;
}

void Loader::read_ahead() {
    next_ = std::async(std::launch::async, [this, from = state_] { return read_step(from); });
}

std::vector<FlatBatch> Loader::next_step() {
    if (!next_.valid()) read_ahead();
    Step step = next_.get();
    state_ = step.after;
    rows_of_step_ = std::move(step.rows);
    read_ahead();
    return std::move(step.micro_batches);
}

void Loader::go_to(const LoaderState& state) {
    if (next_.valid()) next_.wait();
    next_ = {};
    state_ = state;
}

double Loader::epochs_done() const {
    const int64_t per_round = sampler_.batch_size * sampler_.num_ranks;
    const int64_t rounds = (state_.samples_done + per_round - 1) / per_round;
    return static_cast<double>(state_.epoch) +
           static_cast<double>(rounds) / static_cast<double>(sampler_.batches_per_rank());
}

}  // namespace ringshard::data
