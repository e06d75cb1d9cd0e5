#include "ringshard/train/micro_batches.hpp"

namespace ringshard::train {

std::vector<at::Tensor> run_micro_batches(shard::Zero& zero, const model::Transformer& model,
                                          int64_t count,
                                          const std::function<MicroBatch(int64_t)>& batch) {
    zero.clear_gradients();
    std::vector<at::Tensor> token_stats;
    for (int64_t i = 0; i < count; ++i) {
        if (i + 1 == count) zero.begin_last_micro_batch();
        const MicroBatch mine = batch(i);
        token_stats.push_back(
            model.forward_backward(mine.tokens, mine.loss_scale, 1.0 / static_cast<double>(count)));
    }
    return token_stats;
}

}  // namespace ringshard::train
