#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringshard/model/transformer.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// Runs forward and backward of the `count` micro-batches of a step, from clear gradients on;
// Zero::finish_gradients() comes next. `batch(i)` makes this rank's part of micro-batch i, and
// `gradient_scale` multiplies the gradient of every loss. Returns per-token statistics of each
// micro-batch, for ops::add_up. Collective over the world.
std::vector<at::Tensor> run_micro_batches(shard::Zero& zero, const model::Transformer& model,
                                          int64_t count,
                                          const std::function<model::TokenBatch(int64_t)>& batch,
                                          double gradient_scale);

}  // namespace ringshard::train
