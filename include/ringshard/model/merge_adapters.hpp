#pragma once

#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::model {

// Adds scaling x B A to the frozen weights that have an adapter, each rank to its own elements, in
// fp32, and scales the rows of those with magnitudes. The weights at rest are in fp32. Collective
// over the zero group.
void merge_adapters(const ModelSpec& spec, shard::Zero& zero);

}  // namespace ringshard::model
