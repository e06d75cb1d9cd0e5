#include "step_work.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shard_batch.hpp"

namespace ringshard::train {

namespace {

std::vector<int64_t> document_lengths(const data::FlatBatch& batch) {
    std::vector<int64_t> lengths;
    for (size_t document = 0; document < batch.document_starts.size(); ++document) {
        const size_t next = document + 1;
        const int64_t end = next < batch.document_starts.size()
                                ? batch.document_starts[next]
                                : static_cast<int64_t>(batch.tokens.size());
        lengths.push_back(end - batch.document_starts[document]);
    }
    return lengths;
}

// A branch has the operations of its document, without those of the tokens in common.
double operations_of(const model::Operations& operations, const data::FlatBatch& batch) {
    std::vector<int64_t> lengths = document_lengths(batch);
    std::vector<int64_t> in_common;
    for (const auto& [document, stem, length] : batch.branches) {
        lengths[document] += length;
        in_common.push_back(length);
    }
    return operations.of_training(lengths) - operations.of_training(in_common);
}

}  // namespace

StepNumbers StepWork::numbers() const {
    StepNumbers numbers{.filler_tokens = static_cast<int64_t>(filler_tokens),
                        .attention_work_worst = attention.worst,
                        .attention_work_mean = attention.mean};
    for (const LearnerWork& learner : learners) {
        numbers.step_tokens += static_cast<int64_t>(learner.counted_tokens);
        numbers.operations += learner.operations;
    }
    return numbers;
}

std::vector<double> StepWork::loss_scales() const {
    std::vector<double> scales;
    for (const LearnerWork& learner : learners) scales.push_back(1.0 / learner.weight);
    return scales;
}

StepWork count_work(const comm::Group& world, const mesh::Mesh& mesh,
                    const model::Transformer& model, const std::vector<MicroBatches>& of_learners,
                    const MicroBatches& joined) {
    enum { targets, weight, chosen, desirable, counted, operations, of_learner };
    enum { filler, worst_of_ring, mean_of_ring, of_step };
    const size_t step = of_learners.size() * of_learner;
    std::vector<double> sums(step + of_step);
    if (mesh.sequence_rank() == 0) {
        for (size_t learner = 0; learner < of_learners.size(); ++learner) {
            double* const sum = &sums[learner * of_learner];
            for (const data::FlatBatch& batch : of_learners[learner]) {
                sum[targets] += static_cast<double>(batch.num_targets());
                sum[weight] += batch.loss_weight();
                if (batch.content.is_pair)
                    sum[chosen] += static_cast<double>(batch.num_chosen_targets());
                if (batch.content.is_judged)
                    sum[desirable] += static_cast<double>(batch.num_desirable());
                sum[counted] += static_cast<double>(batch.num_counted());
                sum[operations] += operations_of(model.operations(), batch);
            }
        }
        for (const data::FlatBatch& batch : joined) {
            const auto partition = partition_of(batch, mesh.shape());
            sums[step + filler] += static_cast<double>(partition.filled_length()) -
                                   static_cast<double>(batch.tokens.size());
            if (partition.ring() == 1) continue;
            const attention::RingWork work = partition.work();
            sums[step + worst_of_ring] += work.worst;
            sums[step + mean_of_ring] += work.mean;
        }
    }
    sums = world.sum(sums);
    StepWork work{.learners = {},
                  .filler_tokens = sums[step + filler],
                  .attention = {sums[step + worst_of_ring], sums[step + mean_of_ring]}};
    for (size_t learner = 0; learner < of_learners.size(); ++learner) {
        const double* const sum = &sums[learner * of_learner];
        work.learners.push_back({.targets = std::max(1.0, sum[targets]),
                                 .weight = sum[weight] > 0 ? sum[weight] : 1.0,
                                 .pairs = {.mean_chosen_targets = std::max(
                                               1.0, sum[chosen] / std::max(1.0, sum[weight])),
                                           .desirable = sum[desirable],
                                           .undesirable = sum[weight] - sum[desirable]},
                                 .counted_tokens = sum[counted],
                                 .operations = sum[operations],
                                 // A weight of NaN is for the check of the loss.
                                 .has_targets = sum[targets] > 0 && !(sum[weight] <= 0)});
    }
    return work;
}

double count_longest(const comm::Group& world, const model::Transformer& model,
                     const MicroBatches& micro_batches) {
    constexpr double unit = 1000;  // operations: the largest step that there can be fits
    std::vector<int64_t> longest;
    for (const data::FlatBatch& batch : micro_batches)
        longest.push_back(std::llround(operations_of(model.operations(), batch) / unit));
    longest = world.maximum(std::move(longest));
    return unit * static_cast<double>(std::accumulate(longest.begin(), longest.end(), int64_t{0}));
}

}  // namespace ringshard::train
