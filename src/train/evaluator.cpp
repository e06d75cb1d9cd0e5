#include "ringshard/train/evaluator.hpp"

#include <algorithm>
#include <numeric>

#include "ringshard/base/timer.hpp"
#include "row_work.hpp"
#include "shard_batch.hpp"

namespace ringshard::train {

// A rank for which no rows are left takes part with an empty batch.
std::vector<int64_t> Evaluator::rows_of_round(int64_t round) const {
    const int64_t first = round * batch_size_ * mesh_.shape().data();
    const int64_t begin = std::min(rows_.size(), first + mesh_.data_rank() * batch_size_);
    const int64_t end = std::min(rows_.size(), begin + batch_size_);
    std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
    std::iota(numbers.begin(), numbers.end(), begin);
    return numbers;
}

// All tokens of a batch are of one adapter.
data::FlatBatch Evaluator::batch_of_round(int64_t round) const {
    data::FlatBatch batch = data::flatten(rows_, rows_of_round(round));
    if (!adapter_) return batch;
    std::vector<data::AdapterBatch> of_adapters(model_.spec().blocks.front().joint.size(),
                                                {nullptr, 0});
    of_adapters.at(*adapter_).batch = &batch;
    return data::join_batches(of_adapters);
}

// Operations of every round, on the rank that does most. Collective over the world.
std::vector<double> Evaluator::count_longest() const {
    const int64_t per_round = batch_size_ * mesh_.shape().data();
    std::vector<double> mine;
    for (int64_t round = 0; round * per_round < rows_.size(); ++round)
        mine.push_back(operations_of_rows(model_.operations(), rows_, rows_of_round(round)));
    return largest_of_rounds(mine, world_);
}

EvaluationNumbers Evaluator::evaluate(const std::function<void(double)>& before_batch) const {
    const Timer timer;
    ops::TokenSums sums;
    double weight = 0;  // of the targets; one rank of every sequence group adds it
    int64_t round = 0;
    for (const double operations : count_longest()) {
        before_batch(operations);
        data::FlatBatch batch = batch_of_round(round++);
        if (mesh_.sequence_rank() == 0) weight += batch.target_weight();
        sums += ops::add_up(model_.evaluate(
            shard_batch(order_for_attention(std::move(batch), mesh_), mesh_, model_.masks())));
    }
    const auto total = world_.sum(
        std::vector<double>{sums.loss, sums.entropy, static_cast<double>(sums.num_correct),
                            static_cast<double>(sums.num_targets), weight});
    const double targets = std::max(1.0, total[3]);
    return {.loss = total[4] > 0 ? total[0] / total[4] : 0,
            .entropy = total[1] / targets,
            .accuracy = total[2] / targets,
            .rows = rows_.size(),
            .batches = (rows_.size() + batch_size_ - 1) / batch_size_,
            .seconds = timer.seconds()};
}

}  // namespace ringshard::train
