#include "ringshard/data/sample_order.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "ringshard/base/error.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::data {

int64_t SamplerOptions::batches_per_rank() const {
    const int64_t per_round = batch_size * num_ranks;
    if (drop_last) return num_rows / per_round;
    if (num_ranks == 1) return (num_rows + batch_size - 1) / batch_size;
    return (num_rows + per_round - 1) / per_round;
}

namespace {

// TRL flattens batches of rows packed by best fit, or if padding_free is set, and counts their
// padding.
int64_t counted_multiple(const config::DataSettings& data) {
    const bool is_flattened =
        data.padding_free ||
        (data.packing && data.packing_strategy != config::PackingStrategy::wrapped);
    const std::string& multiple = data.pad_to_multiple_of;
    if (!is_flattened || multiple.empty() || multiple == "auto") return 0;
    return std::stoll(multiple);
}

}  // namespace

SamplerOptions sampler_options(const config::Config& config, const Rows& rows,
                               int64_t num_data_ranks) {
    const config::TrainingSettings& training = config.training;
    SamplerOptions sampler{.num_rows = rows.size(),
                           .batch_size = training.per_device_train_batch_size,
                           .num_ranks = num_data_ranks,
                           .seed = config.run.data_seed.value_or(config.run.seed),
                           .strategy = config.data.train_sampling_strategy,
                           .drop_last = config.data.dataloader_drop_last,
                           .counts_padding_to = counted_multiple(config.data)};
    if (sampler.strategy == config::SamplingStrategy::group_by_length) {
        sampler.seed = config.run.seed;
        sampler.group_size =
            training.per_device_train_batch_size * training.gradient_accumulation_steps;
        sampler.lengths.reserve(static_cast<size_t>(rows.size()));
        for (int64_t row = 0; row < rows.size(); ++row)
            sampler.lengths.push_back(static_cast<uint32_t>(rows.length(row)));
    }
    return sampler;
}

namespace {

at::Generator seeded(int64_t seed) {
    return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
}

// Draws into the memory of `order`.
template <class Number>
void draw_permutation(std::vector<Number>& order, const at::Generator& generator) {
    const auto size = static_cast<int64_t>(order.size());
    at::Tensor view =
        at::from_blob(order.data(), {size}, at::TensorOptions(at::CppTypeToScalarType<Number>()));
    at::randperm_out(view, size, generator);
}

// Splits the permutation into large groups and sorts each by descending length; moves the longest
// row of all to the front, so that a lack of memory shows at once.
template <class Number>
void sort_in_groups(std::vector<Number>& order, const SamplerOptions& sampler) {
    constexpr int64_t most_batches = 50;
    const int64_t batches =
        std::clamp<int64_t>(sampler.num_rows / (sampler.group_size * 4), 1, most_batches);
    const auto size = static_cast<size_t>(batches * sampler.group_size);
    const auto length = [&](Number row) { return sampler.lengths[static_cast<size_t>(row)]; };
    size_t longest = 0;
    for (size_t begin = 0; begin < order.size(); begin += size) {
        const auto group = std::span(order).subspan(begin, std::min(size, order.size() - begin));
        std::ranges::stable_sort(group, std::greater(), length);
        if (length(group.front()) > length(order[longest])) longest = begin;
    }
    if (!order.empty()) std::swap(order.front(), order[longest]);
}

}  // namespace

template <class Number>
std::vector<Number> draw_order(const SamplerOptions& sampler, int64_t epoch) {
    std::vector<Number> order(static_cast<size_t>(sampler.num_rows));
    if (sampler.strategy == config::SamplingStrategy::random) {
        draw_permutation(order, seeded(sampler.seed + epoch));
        return order;
    }
    RINGSHARD_CHECK(sampler.strategy == config::SamplingStrategy::group_by_length);
    // transformers draws all epochs from one generator, and a number for its data loader before
    // each epoch.
    const at::Generator generator = seeded(sampler.seed);
    for (int64_t e = 0; e <= epoch; ++e) {
        at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
        draw_permutation(order, generator);
    }
    sort_in_groups(order, sampler);
    return order;
}

template std::vector<int32_t> draw_order<int32_t>(const SamplerOptions&, int64_t);
template std::vector<int64_t> draw_order<int64_t>(const SamplerOptions&, int64_t);

EpochOrder::EpochOrder(const SamplerOptions& sampler, int64_t epoch)
    : num_rows_(sampler.num_rows), size_(sampler.num_rows) {
    const int64_t per_round = sampler.batch_size * sampler.num_ranks;
    first_round_ = std::min(num_rows_, per_round);
    if (sampler.drop_last)
        size_ = num_rows_ / per_round * per_round;
    else if (sampler.num_ranks > 1)
        size_ = (num_rows_ + per_round - 1) / per_round * per_round;
    if (sampler.strategy == config::SamplingStrategy::sequential) return;
    if (num_rows_ <= std::numeric_limits<int32_t>::max())
        drawn_ = draw_order<int32_t>(sampler, epoch);
    else
        drawn_ = draw_order<int64_t>(sampler, epoch);
}

int64_t EpochOrder::operator[](int64_t place) const {
    RINGSHARD_CHECK(place >= 0 && place < size_);
    const int64_t row = place < num_rows_ ? place : (place - num_rows_) % first_round_;
    const auto i = static_cast<size_t>(row);
    if (const auto* narrow = std::get_if<std::vector<int32_t>>(&drawn_)) return (*narrow)[i];
    if (const auto* wide = std::get_if<std::vector<int64_t>>(&drawn_)) return (*wide)[i];
    return row;
}

std::vector<int64_t> EpochOrder::part(int64_t begin, int64_t end) const {
    std::vector<int64_t> rows;
    for (int64_t place = begin; place < end; ++place) rows.push_back((*this)[place]);
    return rows;
}

int64_t EpochOrder::bytes() const {
    if (const auto* narrow = std::get_if<std::vector<int32_t>>(&drawn_))
        return static_cast<int64_t>(narrow->capacity() * sizeof(int32_t));
    if (const auto* wide = std::get_if<std::vector<int64_t>>(&drawn_))
        return static_cast<int64_t>(wide->capacity() * sizeof(int64_t));
    return 0;
}

}  // namespace ringshard::data
