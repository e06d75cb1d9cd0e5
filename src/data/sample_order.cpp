#include "ringshard/data/sample_order.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <numeric>

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

Dealing make_dealing(const config::Config& config, int64_t num_rows, const mesh::MeshShape& shape) {
    return {.num_rows = num_rows,
            .batch_size = config.training.per_device_train_batch_size,
            .num_ranks = shape.data(),
            .seed = config.run.data_seed.value_or(config.run.seed),
            .strategy = config.data.train_sampling_strategy,
            .drop_last = config.data.dataloader_drop_last,
            .counts_padding_to = counted_multiple(config.data)};
}

std::vector<int64_t> epoch_order(const Dealing& dealing, int64_t epoch) {
    const auto n = static_cast<size_t>(dealing.num_rows);
    std::vector<int64_t> order(n);
    if (dealing.strategy == config::SamplingStrategy::sequential) {
        std::iota(order.begin(), order.end(), 0);
    } else {
        RINGSHARD_CHECK(dealing.strategy == config::SamplingStrategy::random);
        const auto generator =
            at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(dealing.seed + epoch));
        const at::Tensor permutation =
            at::randperm(dealing.num_rows, generator, at::TensorOptions(at::kLong));
        std::copy_n(permutation.data_ptr<int64_t>(), n, order.begin());
    }
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
