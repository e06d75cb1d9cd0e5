#include "expert_exchange.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>

namespace ringshard::model {

namespace {

// More chunks hide little more: no computation overlaps the first send and the last return.
constexpr int64_t most_chunks = 8;

int64_t sum_of(const std::vector<int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Sums of equal parts, one for each rank.
comm::RowCounts sums_of_parts(const std::vector<int64_t>& counts, int ranks) {
    const auto length = std::ssize(counts) / ranks;
    comm::RowCounts sums;
    for (auto part = counts.begin(); part != counts.end(); part += length)
        sums.push_back(std::accumulate(part, part + length, int64_t{0}));
    return sums;
}

at::Tensor room_for(const at::Tensor& like, int64_t rows) {
    std::vector<int64_t> shape = like.sizes().vec();
    shape.front() = rows;
    return at::empty(shape, like.options());
}

std::vector<int64_t> equal_parts(int64_t tokens, int64_t chunks) {
    std::vector<int64_t> parts;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        parts.push_back(tokens * (chunk + 1) / chunks - tokens * chunk / chunks);
    return parts;
}

}  // namespace

// Experts of a chunk have numbers behind all of the chunk before.
ops::ExpertRows rows_by_chunk(const at::Tensor& experts, const ExpertsSpec& spec,
                              const std::vector<int64_t>& tokens_of_chunks) {
    if (tokens_of_chunks.size() == 1)
        return ops::rows_by_expert(experts, spec.count, spec.planned_experts);
    const at::Tensor numbers = experts.clone();
    std::vector<int64_t> planned;
    int64_t begin = 0;
    bool is_first = true;
    for (const int64_t tokens : tokens_of_chunks) {
        const at::Tensor here = experts.narrow(0, begin, tokens);
        if (!is_first) numbers.narrow(0, begin, experts.size(0) - begin).add_(spec.count);
        is_first = false;  // it may be empty
        if (spec.planned_experts > 0) {
            const auto rows = ops::rows_by_expert(here, spec.count, spec.planned_experts);
            planned.insert(planned.end(), rows.counts.begin(), rows.counts.end());
        }
        begin += tokens;
    }
    ops::ExpertRows rows = ops::rows_by_expert(numbers, std::ssize(tokens_of_chunks) * spec.count);
    if (!planned.empty()) rows.counts = std::move(planned);
    return rows;
}

int64_t chunks_of_exchange(const ExpertGroup& group, int64_t per_token, int64_t num_experts) {
    if (group.ranks == nullptr) return 1;
    const int64_t rows = group.most_tokens * group.ranks->size() * per_token / num_experts;
    return std::clamp<int64_t>(rows / group.least_rows, 1, most_chunks);
}

ExpertExchange::ExpertExchange(const ExpertGroup& group, const at::Tensor& experts,
                               const ExpertsSpec& spec,
                               const std::vector<int64_t>& tokens_of_adapters, at::Tensor arrivals)
    : group_(group.ranks), per_token_(experts.size(1)), arrivals_(std::move(arrivals)) {
    const int64_t adapters = std::ssize(tokens_of_adapters);
    const int64_t chunks_of_adapter =
        std::max<int64_t>(1, chunks_of_exchange(group, per_token_, spec.count) / adapters);
    std::vector<int64_t> tokens_of_chunks;
    for (const int64_t tokens : tokens_of_adapters)
        for (const int64_t part : equal_parts(tokens, chunks_of_adapter))
            tokens_of_chunks.push_back(part);
    rows_ = rows_by_chunk(experts, spec, tokens_of_chunks);
    auto counts = rows_.counts.begin();
    int64_t begin = 0;
    for (const int64_t tokens : tokens_of_chunks) {
        const std::vector<int64_t> sent(counts, counts + spec.count);
        const int64_t adapter = this->chunks() / chunks_of_adapter;
        chunks_.push_back({begin, tokens, static_cast<size_t>(adapter), sent, sent});
        counts += spec.count;
        begin += tokens;
    }
    if (group_ == nullptr) return;
    if (!arrivals_.defined()) exchange_counts(spec.count);
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) find_arrivals(chunk);
}

void ExpertExchange::exchange_counts(int64_t num_experts) {
    const int64_t ranks = group_->size();
    const at::Tensor by_chunk = at::from_blob(
        rows_.counts.data(), {chunks(), ranks, num_experts / ranks}, at::TensorOptions(at::kLong));
    const at::Tensor sent = by_chunk.transpose(0, 1).contiguous().to(rows_.tokens.options(), false,
                                                                     true);  // always copies
    arrivals_ = at::empty_like(sent);
    group_->all_to_all(arrivals_, sent).wait();
}

void ExpertExchange::find_arrivals(int64_t chunk) {
    Chunk& here = chunks_[static_cast<size_t>(chunk)];
    here.arrived = ops::arrived_rows(arrivals_.select(1, chunk).contiguous(), here.sent);
    here.to_ranks = sums_of_parts(here.sent, group_->size());
    here.from_ranks = sums_of_parts(here.arrived.counts, group_->size());
    here.counts.assign(here.sent.size() / here.to_ranks.size(), 0);
    for (size_t i = 0; i < here.arrived.counts.size(); ++i)
        here.counts[i % here.counts.size()] += here.arrived.counts[i];
}

at::Tensor ExpertExchange::of_tokens(const at::Tensor& rows, int64_t chunk) const {
    return rows.narrow(0, of(chunk).first_token * per_token_, of(chunk).tokens * per_token_);
}

at::Tensor ExpertExchange::tokens(int64_t chunk) const { return of_tokens(rows_.tokens, chunk); }

at::Tensor ExpertExchange::places(int64_t chunk) const {
    const at::Tensor places = rows_.places.narrow(0, of(chunk).first_token, of(chunk).tokens);
    return chunk == 0 ? places : places - of(chunk).first_token * per_token_;
}

int64_t ExpertExchange::num_arriving() const {
    int64_t rows = 0;
    for (const Chunk& chunk : chunks_) rows += sum_of(chunk.counts);
    return rows;
}

at::Tensor ExpertExchange::of_experts(const at::Tensor& rows, int64_t chunk) const {
    int64_t first = 0;
    for (int64_t before = 0; before < chunk; ++before) first += sum_of(of(before).counts);
    return rows.narrow(0, first, sum_of(of(chunk).counts));
}

ExpertExchange::Moving ExpertExchange::send_to_experts(int64_t chunk,
                                                       const at::Tensor& rows) const {
    if (group_ == nullptr) return {rows};
    Moving moving{room_for(rows, sum_of(of(chunk).counts))};
    moving.pending =
        group_->all_to_all_uneven(moving.rows, of(chunk).from_ranks, rows, of(chunk).to_ranks);
    return moving;
}

at::Tensor ExpertExchange::receive(int64_t chunk, Moving moving) const {
    moving.pending.wait();
    if (group_ == nullptr || of(chunk).counts.size() == 1) return moving.rows;  // they lie in order
    return ops::take_rows(moving.rows, of(chunk).arrived.by_expert);
}

ExpertExchange::Moving ExpertExchange::send_to_tokens(int64_t chunk, const at::Tensor& rows) const {
    if (group_ == nullptr) return {rows};
    const Chunk& here = of(chunk);
    const at::Tensor sent =
        here.counts.size() == 1 ? rows : ops::take_rows(rows, here.arrived.by_rank);
    Moving moving{room_for(rows, sum_of(here.sent))};
    moving.pending = group_->all_to_all_uneven(moving.rows, here.to_ranks, sent, here.from_ranks);
    return moving;
}

at::Tensor wait_for(ExpertExchange::Moving moving) {
    moving.pending.wait();
    return moving.rows;
}

}  // namespace ringshard::model
