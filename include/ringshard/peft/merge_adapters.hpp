#pragma once

#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::peft {

// Adds scaling x B A to the frozen weights that have an adapter, each rank to its own elements, in
// fp32, scales the rows of those with magnitudes, and adds biases of B to those of the layers. The
// weights at rest are in fp32. Collective over the zero group.
void merge_adapters(const model::ModelSpec& spec, shard::Zero& zero);

// Fails (78) where an adapter has a bias of B (lora_bias) and its layer has no bias that it could
// be added to; PEFT refuses this too.
std::optional<Failure> refuse_merge(const model::ModelSpec& spec);

}  // namespace ringshard::peft
