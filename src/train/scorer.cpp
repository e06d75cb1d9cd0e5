#include "ringshard/train/scorer.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "row_work.hpp"
#include "shard_batch.hpp"

namespace ringshard::train {

namespace {

// Returns the first row of each data rank, such that all have about as many tokens.
std::vector<int64_t> share_rows(const data::Rows& rows, int64_t num_ranks) {
    double total = 0;
    for (int64_t row = 0; row < rows.size(); ++row) total += static_cast<double>(rows.length(row));
    std::vector<int64_t> first_rows{0};
    double before = 0;
    for (int64_t row = 0; row < rows.size(); ++row) {
        const auto share = static_cast<double>(first_rows.size());
        if (std::ssize(first_rows) < num_ranks &&
            before >= total * share / static_cast<double>(num_ranks))
            first_rows.push_back(row);
        before += static_cast<double>(rows.length(row));
    }
    first_rows.resize(static_cast<size_t>(num_ranks) + 1, rows.size());
    return first_rows;
}

// Every token but the first of a document is a target, learned or not.
data::FlatBatch with_all_targets(data::FlatBatch batch) {
    const size_t length = batch.tokens.size();
    for (size_t i = 0; i + 1 < length; ++i) batch.targets[i] = batch.tokens[i + 1];
    if (length > 0) batch.targets[length - 1] = data::no_label;
    for (const int64_t start : batch.document_starts)
        if (start > 0 && start < static_cast<int64_t>(length))
            batch.targets[static_cast<size_t>(start) - 1] = data::no_label;
    batch.weights.clear();
    return batch;
}

// Sums, over the sequence group, the numbers of each rank for its own targets: log-probability,
// most likely tokens and theirs. A row for each place of the flat list, on the host.
at::Tensor add_up_places(const model::TokenScores& scores, const at::Tensor& target_places,
                         const attention::SequencePartition& partition, const mesh::Mesh& mesh) {
    std::vector<at::Tensor> parts{-scores.token_stats.narrow(1, 0, 1)};
    if (scores.top_tokens.defined()) {
        parts.push_back(scores.top_tokens.to(at::kFloat));
        parts.push_back(scores.top_log_probabilities);
    }
    const at::Tensor numbers = at::cat(parts, 1);
    std::vector<int64_t> all(static_cast<size_t>(partition.filled_length()));
    std::iota(all.begin(), all.end(), int64_t{0});
    const std::vector<int64_t> mine =
        attention::pick(std::span<const int64_t>(all),
                        partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses));
    at::Tensor places = target_places.to(at::kCPU).clone();
    auto* const place = places.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < places.size(0); ++i) place[i] = mine[static_cast<size_t>(place[i])];
    const at::Tensor sum =
        at::zeros({partition.filled_length(), numbers.size(1)}, numbers.options());
    sum.index_copy_(0, places.to(mesh.device()), numbers);
    mesh.ring().all_reduce(sum).wait();
    mesh.ulysses().all_reduce(sum).wait();
    return sum.to(at::kCPU);
}

// found: [places, 1 + 2 top_k]. The scores of a token are in the place of the token before it.
void add_token(const data::FlatBatch& learned, const data::FlatBatch& whole, size_t place,
               const at::Tensor& found, data::ScoredRows& scored) {
    const int64_t width = found.size(1);
    const int64_t k = (width - 1) / 2;
    const bool has_probability = place > 0 && whole.targets[place - 1] != data::no_label;
    const auto* const numbers =
        found.const_data_ptr<float>() + (place > 0 ? static_cast<int64_t>(place) - 1 : 0) * width;
    scored.tokens.push_back(static_cast<int32_t>(whole.tokens[place]));
    scored.is_learned.push_back(place > 0 && learned.targets[place - 1] != data::no_label);
    scored.log_probabilities.push_back(has_probability ? numbers[0]
                                                       : std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < k; ++i) {
        scored.top_tokens.push_back(has_probability ? static_cast<int32_t>(numbers[1 + i]) : 0);
        scored.top_log_probabilities.push_back(has_probability ? numbers[1 + k + i] : 0);
    }
}

}  // namespace

Scorer::Scorer(const data::Rows& rows, const Options& options, const comm::Group& world,
               const mesh::Mesh& mesh, const model::Transformer& model)
    : rows_(rows),
      options_(options),
      world_(world),
      mesh_(mesh),
      model_(model),
      first_rows_(share_rows(rows, mesh.shape().data())) {}

// A rank for which no rows are left takes part with an empty batch.
std::vector<int64_t> Scorer::rows_of_round(int64_t round) const {
    const auto rank = static_cast<size_t>(mesh_.data_rank());
    const int64_t last = first_rows_[rank + 1];
    const int64_t begin = std::min(last, first_rows_[rank] + round * options_.batch_size);
    const int64_t end = std::min(last, begin + options_.batch_size);
    std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
    std::iota(numbers.begin(), numbers.end(), begin);
    return numbers;
}

data::ScoredRows Scorer::score_batch(const std::vector<int64_t>& numbers) const {
    const data::FlatBatch learned = data::flatten(rows_, numbers);
    const data::FlatBatch whole = with_all_targets(learned);
    const model::TokenBatch batch = shard_batch(whole, mesh_, model_.masks());
    const model::TokenScores scores =
        options_.top_k > 0 ? model_.score(batch, options_.top_k, options_.temperature)
                           : model::TokenScores{model_.evaluate(batch), {}, {}};
    const at::Tensor found =
        add_up_places(scores, batch.target_places, partition_of(whole, mesh_.shape()), mesh_);
    if (mesh_.sequence_rank() != 0) return {};
    data::ScoredRows scored;
    scored.rows = numbers;
    for (const int64_t row : numbers) scored.lengths.push_back(rows_.length(row));
    for (size_t place = 0; place < whole.tokens.size(); ++place)
        add_token(learned, whole, place, found, scored);
    return scored;
}

comm::Agreed<Scorer::Sums> Scorer::score(const Hooks& hooks) const {
    int64_t most_rows = 0;
    for (size_t rank = 0; rank + 1 < first_rows_.size(); ++rank)
        most_rows = std::max(most_rows, first_rows_[rank + 1] - first_rows_[rank]);
    const int64_t rounds = (most_rows + options_.batch_size - 1) / options_.batch_size;
    std::vector<double> mine;
    for (int64_t round = 0; round < rounds; ++round)
        mine.push_back(operations_of_rows(model_.operations(), rows_, rows_of_round(round)));

    constexpr int64_t rounds_between_checks = 16;
    Sums sums;
    std::optional<Failure> failure;
    int64_t round = 0;
    for (const double operations : largest_of_rounds(mine, world_)) {
        hooks.before_batch(operations);
        const data::ScoredRows scored = score_batch(rows_of_round(round++));
        sums.rows += std::ssize(scored.rows);
        for (size_t i = 0; i < scored.tokens.size(); ++i) {
            if (std::isnan(scored.log_probabilities[i])) continue;
            ++sums.tokens;
            sums.log_probability += scored.log_probabilities[i];
            if (!scored.is_learned[i]) continue;
            ++sums.learned_tokens;
            sums.learned_log_probability += scored.log_probabilities[i];
        }
        if (!scored.rows.empty() && !failure) failure = hooks.take(scored);
        if (round % rounds_between_checks == 0 || round == rounds)
            if (const auto agreed = comm::first_failure(world_, failure)) return *agreed;
    }
    const auto total = world_.sum(std::vector<double>{
        static_cast<double>(sums.rows), static_cast<double>(sums.tokens), sums.log_probability,
        static_cast<double>(sums.learned_tokens), sums.learned_log_probability});
    return Sums{static_cast<int64_t>(total[0]), static_cast<int64_t>(total[1]), total[2],
                static_cast<int64_t>(total[3]), total[4]};
}

}  // namespace ringshard::train
