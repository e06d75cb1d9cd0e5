#include "ringshard/data/sample_order.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "ringshard/base/error.hpp"

namespace ringshard::data {

int64_t Dealing::batches_per_rank() const {
    const int64_t per_round = batch_size * num_ranks;
    if (drop_last) return num_rows / per_round;
    if (num_ranks == 1) return (num_rows + batch_size - 1) / batch_size;
    return (num_rows + per_round - 1) / per_round;
}

namespace {

// TRL flattens batches of rows that are packed by best fit, or when told to, and counts what it
// fills them up with.
int64_t counted_multiple(const config::DataSettings& data) {
    const bool is_flattened =
        data.padding_free ||
        (data.packing && data.packing_strategy != config::PackingStrategy::wrapped);
    const std::string& multiple = data.pad_to_multiple_of;
    if (!is_flattened || multiple.empty() || multiple == "auto") return 0;
    return std::stoll(multiple);
}

}  // namespace

Dealing make_dealing(const config::Config& config, const Rows& rows, const mesh::MeshShape& shape) {
    const config::TrainingSettings& training = config.training;
    Dealing dealing{.num_rows = rows.size(),
                    .batch_size = training.per_device_train_batch_size,
                    .num_ranks = shape.data(),
                    .seed = config.run.data_seed.value_or(config.run.seed),
                    .strategy = config.data.train_sampling_strategy,
                    .drop_last = config.data.dataloader_drop_last,
                    .counts_padding_to = counted_multiple(config.data)};
    if (dealing.strategy == config::SamplingStrategy::group_by_length) {
        dealing.seed = config.run.seed;
        dealing.group_size =
            training.per_device_train_batch_size * training.gradient_accumulation_steps;
        for (int64_t row = 0; row < rows.size(); ++row) dealing.lengths.push_back(rows.length(row));
    }
    return dealing;
}

namespace {

std::vector<int64_t> permutation(int64_t size, const at::Generator& generator) {
    const at::Tensor drawn = at::randperm(size, generator, at::TensorOptions(at::kLong));
    const auto* first = drawn.const_data_ptr<int64_t>();
    return {first, first + size};
}

at::Generator seeded(int64_t seed) {
    return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
}

// The permutation is cut into large groups, and each sorted from its longest row down; the longest
// row of all comes first, so that a lack of memory shows at once.
std::vector<int64_t> sorted_in_groups(std::vector<int64_t> order, const Dealing& dealing) {
    constexpr int64_t most_batches = 50;
    const int64_t batches =
        std::clamp<int64_t>(dealing.num_rows / (dealing.group_size * 4), 1, most_batches);
    const auto size = static_cast<size_t>(batches * dealing.group_size);
    const auto length = [&](int64_t row) { return dealing.lengths[static_cast<size_t>(row)]; };
    size_t longest = 0;
    for (size_t begin = 0; begin < order.size(); begin += size) {
        const auto group = std::span(order).subspan(begin, std::min(size, order.size() - begin));
        std::ranges::stable_sort(group, std::greater(), length);
        if (length(group.front()) > length(order[longest])) longest = begin;
    }
    if (!order.empty()) std::swap(order.front(), order[longest]);
    return order;
}

// The original draws from one generator through all epochs, a number for its loader before each.
std::vector<int64_t> order_by_length(const Dealing& dealing, int64_t epoch) {
    const at::Generator generator = seeded(dealing.seed);
    std::vector<int64_t> order;
    for (int64_t e = 0; e <= epoch; ++e) {
        at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
        order = permutation(dealing.num_rows, generator);
    }
    return sorted_in_groups(std::move(order), dealing);
}

std::vector<int64_t> undivided_order(const Dealing& dealing, int64_t epoch) {
    switch (dealing.strategy) {
        case config::SamplingStrategy::sequential: {
            std::vector<int64_t> order(static_cast<size_t>(dealing.num_rows));
            std::iota(order.begin(), order.end(), 0);
            return order;
        }
        case config::SamplingStrategy::random:
            return permutation(dealing.num_rows, seeded(dealing.seed + epoch));
        case config::SamplingStrategy::group_by_length: return order_by_length(dealing, epoch);
    }
    RINGSHARD_CHECK(false, "a strategy without an order");
}

}  // namespace

std::vector<int64_t> epoch_order(const Dealing& dealing, int64_t epoch) {
    std::vector<int64_t> order = undivided_order(dealing, epoch);
    const size_t n = order.size();
    const auto per_round = static_cast<size_t>(dealing.batch_size * dealing.num_ranks);
    if (dealing.drop_last) {
        order.resize(n / per_round * per_round);
    } else if (dealing.num_ranks > 1) {
        const size_t filled = (n + per_round - 1) / per_round * per_round;
        // Its first round, over and over.
        for (size_t i = 0; order.size() < filled; ++i)
            order.push_back(order[i % std::min(n, per_round)]);
    }
    return order;
}

}  // namespace ringshard::data
