#include "ringshard/train/evaluator.hpp"

#include <algorithm>
#include <numeric>

#include "all_embeddings.hpp"
#include "baseline.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/ops/device_copies.hpp"
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

int64_t Evaluator::num_rounds() const {
    const int64_t per_round = batch_size_ * mesh_.shape().data();
    return (rows_.size() + per_round - 1) / per_round;
}

// All tokens of a batch are of one learner.
data::FlatBatch Evaluator::batch_of_round(int64_t round) const {
    data::FlatBatch batch = data::flatten(rows_, rows_of_round(round));
    std::vector<data::LearnerBatch> of_learners(narrow<size_t>(model_.spec().num_learners()));
    of_learners.at(subject_.learner).batch = &batch;
    return data::join_batches(of_learners);
}

// Operations of every round, on the rank that does most. Collective over the world.
std::vector<double> Evaluator::count_longest() const {
    std::vector<double> mine;
    for (int64_t round = 0; round < num_rounds(); ++round)
        mine.push_back(operations_of_rows(model_.operations(), rows_, rows_of_round(round)));
    return largest_of_rounds(mine, world_);
}

model::AllPairs Evaluator::all_pairs() const {
    if (!model_.objective().needs_all_pairs()) return {};
    const bool is_judged = rows_.content().is_judged;
    int64_t mine = 0;
    for (int64_t round = 0; mesh_.sequence_rank() == 0 && round < num_rounds(); ++round) {
        const data::FlatBatch batch = data::flatten(rows_, rows_of_round(round));
        mine += is_judged ? batch.num_desirable() : batch.num_chosen_targets();
    }
    const auto all = static_cast<double>(world_.sum(mine));
    const auto count = static_cast<double>(rows_.size());
    if (!is_judged) return {.mean_chosen_targets = std::max(1.0, all / std::max(1.0, count))};
    model::AllPairs pairs{.desirable = all, .undesirable = count - all};
    if (rows_.has_baseline())
        pairs.baseline = read_baseline(
            world_, mesh_, model_, reference_, num_rounds(),
            [&](int64_t round) { return data::flatten_baseline(rows_, rows_of_round(round)); });
    return pairs;
}

model::TokenBatch Evaluator::tokens_of_round(data::FlatBatch batch,
                                             const model::AllPairs& pairs) const {
    batch = order_for_attention(std::move(batch), mesh_);
    if (batch.content.has_answers())
        return shard_answers(std::move(batch), mesh_, model_.masks(), reference_, pairs);
    return shard_batch(std::move(batch), mesh_, model_.masks());
}

EvaluationNumbers Evaluator::compare_texts(const std::function<void(double)>& before_batch) const {
    constexpr size_t anchors_at_a_time = 1024;
    const Timer timer;
    std::vector<int64_t> rows(static_cast<size_t>(rows_.size()));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    AllEmbeddings all(rows_, rows, mesh_, model_);
    std::vector<int64_t> own;
    int64_t round = 0;
    for (const double operations : count_longest()) {
        before_batch(operations);
        const std::vector<int64_t> of_round = rows_of_round(round);
        all.read(of_round.empty() ? rows_.size() : of_round.front(), batch_of_round(round++));
        own.insert(own.end(), of_round.begin(), of_round.end());
    }
    all.join();
    enum { loss, right };
    std::vector<double> sums(2);
    const model::InBatch texts = all.compared(subject_.temperature);
    for (size_t first = 0; mesh_.sequence_rank() == 0 && first < own.size();
         first += anchors_at_a_time) {
        const auto anchors =
            std::span(own).subspan(first, std::min(anchors_at_a_time, own.size() - first));
        const model::AnchorLosses of_anchors = texts.losses_of(anchors);
        sums[loss] += of_anchors.losses.sum().item<double>();
        sums[right] += of_anchors.is_right.sum().item<double>();
    }
    sums = world_.sum(sums);
    const double count = std::max(1.0, static_cast<double>(rows_.size()));
    EvaluationNumbers found{.loss = sums[loss] / count,
                            .names = model_.objective().stat_names(),
                            .rows = rows_.size(),
                            .batches = (rows_.size() + batch_size_ - 1) / batch_size_,
                            .seconds = timer.seconds(),
                            .set = subject_.set};
    found.of_objective.emplace_back("accuracy", sums[right] / count);
    return found;
}

EvaluationNumbers Evaluator::evaluate(const std::function<void(double)>& before_batch) const {
    if (rows_.content().is_embedded) return compare_texts(before_batch);
    const Timer timer;
    const std::vector<model::FurtherNumber> further = rows_.content().has_answers()
                                                          ? model_.objective().further_numbers()
                                                          : std::vector<model::FurtherNumber>();
    // Of all targets, their loss weight, and the numbers of tokens.
    enum { targets, weight, numbers };
    std::vector<double> sums(numbers + ops::stats_per_token + further.size());
    const model::AllPairs pairs = all_pairs();
    int64_t round = 0;
    for (const double operations : count_longest()) {
        before_batch(operations);
        data::FlatBatch batch = batch_of_round(round++);
        // One rank of every sequence group adds it.
        if (mesh_.sequence_rank() == 0) sums[weight] += batch.loss_weight();
        const at::Tensor token_stats = model_.evaluate(tokens_of_round(std::move(batch), pairs));
        sums[targets] += static_cast<double>(token_stats.size(0));
        const at::Tensor of_round = ops::on_host(ops::sum_of_tokens(token_stats));
        for (size_t i = numbers; i < sums.size(); ++i)
            sums[i] += of_round.const_data_ptr<double>()[i - numbers];
    }
    const auto total = world_.sum(sums);
    const double count = std::max(1.0, total[targets]);
    const double divisor = total[weight] > 0 ? total[weight] : 1;
    EvaluationNumbers found{.loss = total[numbers] / divisor,
                            .entropy = total[numbers + 1] / count,
                            .accuracy = total[numbers + 2] / count,
                            .names = model_.objective().stat_names(),
                            .rows = rows_.size(),
                            .batches = (rows_.size() + batch_size_ - 1) / batch_size_,
                            .seconds = timer.seconds(),
                            .set = subject_.set};
    const double* const of_objective = &total[numbers] + ops::stats_per_token;
    for (size_t i = 0; i < further.size(); ++i) {
        const auto& [name, by] = further[i];
        if (!name.empty())
            found.of_objective.emplace_back(name,
                                            of_objective[i] / (by ? of_objective[*by] : divisor));
    }
    return found;
}

}  // namespace ringshard::train
