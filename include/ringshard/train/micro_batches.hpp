#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringshard/model/transformer.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// This rank's part of a micro-batch, and by what the gradient of every loss is multiplied.
struct MicroBatch {
    model::TokenBatch tokens;
    double loss_scale = 1;
};

// Runs forward and backward of the `count` micro-batches of a step, from clear gradients on;
// Zero::finish_gradients() comes next. `batch(i)` makes micro-batch i. Returns per-token statistics
// of each micro-batch, for ops::add_up. Collective over the world.
std::vector<at::Tensor> run_micro_batches(shard::Zero& zero, const model::Transformer& model,
                                          int64_t count,
                                          const std::function<MicroBatch(int64_t)>& batch);

}  // namespace ringshard::train
