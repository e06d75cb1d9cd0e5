#include "ringshard/train/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ringshard/base/timer.hpp"
#include "ringshard/data/loader.hpp"

namespace ringshard::train {

namespace {

constexpr double unit = 1000;  // operations: the largest batch that there can be fits

std::vector<int64_t> document_lengths(std::span<const data::Piece> pieces) {
    std::vector<int64_t> lengths;
    for (const data::Piece& piece : pieces) {
        if (piece.goes_on == 0 || lengths.empty()) lengths.push_back(0);
        lengths.back() += piece.length;
    }
    return lengths;
}

}  // namespace

// A rank for which no rows are left takes part with an empty batch.
std::vector<int64_t> Evaluator::rows_of_round(int64_t round) const {
    const int64_t first = round * batch_size_ * mesh_.shape().data();
    const int64_t begin = std::min(rows_.size(), first + mesh_.data_rank() * batch_size_);
    const int64_t end = std::min(rows_.size(), begin + batch_size_);
    std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
    std::iota(numbers.begin(), numbers.end(), begin);
    return numbers;
}

// Operations of every round, on the rank that does most. Collective over the world.
std::vector<int64_t> Evaluator::count_longest() const {
    const int64_t per_round = batch_size_ * mesh_.shape().data();
    std::vector<int64_t> longest;
    for (int64_t round = 0; round * per_round < rows_.size(); ++round) {
        double operations = 0;
        for (const int64_t row : rows_of_round(round))
            operations += model_.operations().of_training(document_lengths(rows_.pieces(row)));
        longest.push_back(std::llround(operations / unit));
    }
    return world_.maximum(std::move(longest));
}

EvaluationNumbers Evaluator::evaluate(const std::function<void(double)>& before_batch) const {
    const Timer timer;
    ops::TokenSums sums;
    double weight = 0;  // of the targets; one rank of every sequence group adds it
    int64_t round = 0;
    for (const int64_t operations : count_longest()) {
        before_batch(unit * static_cast<double>(operations));
        auto batch = data::flatten(rows_, rows_of_round(round++));
        if (mesh_.sequence_rank() == 0) weight += batch.target_weight();
        sums +=
            ops::add_up(model_.evaluate(data::cut_batch(std::move(batch), mesh_, model_.masks())));
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
