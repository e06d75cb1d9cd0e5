#include "expert_exchange.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <numeric>

namespace ringshard::model {

namespace {

// Sums of equal parts, one for each rank.
comm::RowCounts sums_of_parts(const std::vector<int64_t>& counts, int ranks) {
    const auto length = std::ssize(counts) / ranks;
    comm::RowCounts sums;
    for (auto part = counts.begin(); part != counts.end(); part += length)
        sums.push_back(std::accumulate(part, part + length, int64_t{0}));
    return sums;
}

at::Tensor on_device_of(const at::Tensor& like, std::vector<int64_t> counts, int ranks) {
    return at::from_blob(counts.data(), {ranks, std::ssize(counts) / ranks},
                         at::TensorOptions(at::kLong))
        .to(like.options(), false, true);  // always copies
}

at::Tensor room_for(const at::Tensor& like, int64_t rows) {
    std::vector<int64_t> shape = like.sizes().vec();
    shape.front() = rows;
    return at::empty(shape, like.options());
}

}  // namespace

ExpertExchange::ExpertExchange(comm::Communicator* group, const ops::ExpertRows& rows,
                               at::Tensor arrivals)
    : group_(group), counts_(rows.counts), arrivals_(std::move(arrivals)) {
    if (group_ == nullptr) return;
    if (!arrivals_.defined()) {
        const at::Tensor sent = on_device_of(rows.tokens, rows.counts, group_->size());
        arrivals_ = at::empty_like(sent);
        group_->all_to_all(arrivals_, sent).wait();
    }
    arrived_ = ops::arrived_rows(arrivals_, rows.counts);
    sent_ = sums_of_parts(rows.counts, group_->size());
    received_ = sums_of_parts(arrived_.counts, group_->size());
    counts_.assign(rows.counts.size() / sent_.size(), 0);
    for (size_t i = 0; i < arrived_.counts.size(); ++i)
        counts_[i % counts_.size()] += arrived_.counts[i];
}

ExpertExchange::Moving ExpertExchange::send_to_experts(const at::Tensor& rows) const {
    if (group_ == nullptr) return {rows};
    Moving moving{room_for(rows, arrived_.by_expert.size(0))};
    moving.pending = group_->all_to_all_uneven(moving.rows, received_, rows, sent_);
    return moving;
}

at::Tensor ExpertExchange::receive(Moving moving) const {
    moving.pending.wait();
    if (group_ == nullptr || counts_.size() == 1) return moving.rows;  // they lie in order
    return ops::take_rows(moving.rows, arrived_.by_expert);
}

ExpertExchange::Moving ExpertExchange::send_to_tokens(const at::Tensor& rows) const {
    if (group_ == nullptr) return {rows};
    const at::Tensor sent = counts_.size() == 1 ? rows : ops::take_rows(rows, arrived_.by_rank);
    Moving moving{room_for(rows, std::accumulate(sent_.begin(), sent_.end(), int64_t{0}))};
    moving.pending = group_->all_to_all_uneven(moving.rows, sent_, sent, received_);
    return moving;
}

at::Tensor wait_for(ExpertExchange::Moving moving) {
    moving.pending.wait();
    return moving.rows;
}

}  // namespace ringshard::model
