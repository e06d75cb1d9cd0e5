#pragma once

#include <functional>

#include "ringshard/comm/group.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/train/reference_log_probs.hpp"

namespace ringshard::train {

// Returns the mean, over the rows of all ranks, of the logarithms of the ratios of their baseline
// under the model and the reference; 0 if it is negative. `batches`: of this data rank,
// `next_batch` gives one after the other. Collective over the world.
double read_baseline(const comm::Group& world, const mesh::Mesh& mesh,
                     const model::Transformer& model, const ReferenceLogProbs& reference,
                     int64_t batches, const std::function<data::FlatBatch(int64_t)>& next_batch);

}  // namespace ringshard::train
