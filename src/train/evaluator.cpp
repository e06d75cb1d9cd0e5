#include "ringshard/train/evaluator.hpp"

#include <algorithm>
#include <numeric>

#include "ringshard/base/timer.hpp"
#include "ringshard/data/loader.hpp"

namespace ringshard::train {

EvaluationNumbers Evaluator::evaluate(const std::function<void()>& after_batch) const {
    const Timer timer;
    const int64_t per_round = batch_size_ * mesh_.shape().data();
    ops::TokenSums sums;
    // A rank for which no rows are left takes part with an empty batch.
    for (int64_t round = 0; round < rows_.size(); round += per_round) {
        const int64_t begin = std::min(rows_.size(), round + mesh_.data_rank() * batch_size_);
        const int64_t end = std::min(rows_.size(), begin + batch_size_);
        std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
        std::iota(numbers.begin(), numbers.end(), begin);
        sums += ops::add_up(model_.evaluate(data::cut_batch(data::flatten(rows_, numbers), mesh_)));
        after_batch();
    }
    const auto total = world_.sum(std::vector<double>{sums.loss, sums.entropy,
                                                      static_cast<double>(sums.num_correct),
                                                      static_cast<double>(sums.num_targets)});
    const double targets = std::max(1.0, total[3]);
    return {.loss = total[0] / targets,
            .entropy = total[1] / targets,
            .accuracy = total[2] / targets,
            .rows = rows_.size(),
            .batches = (rows_.size() + batch_size_ - 1) / batch_size_,
            .seconds = timer.seconds()};
}

}  // namespace ringshard::train
