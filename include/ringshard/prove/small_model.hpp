#pragma once

#include <cstdint>
#include <vector>

#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/shard/zero.hpp"

// A model of the same architecture that computes in a moment, to try a layout on.
namespace ringshard::prove {

struct SmallModel {
    model::ModelSpec spec;
    // The block of the model of which each block is a copy: one of each kind, adapters and frozen
    // tensors included, and two at least if the model has two.
    std::vector<size_t> blocks;
    int64_t blocks_of_model;
};

// Returns the model with a small width, small MLPs, few heads, small windows, a small vocabulary
// and one block of each kind. It keeps sizes of heads, positions, the number of experts and of
// those that a token goes through, adapters, frozen tensors, and how heads stand to `ulysses`
// ranks: divided among them, or repeated for them.
SmallModel make_small(const model::ModelSpec& spec, int64_t ulysses);

// Fills the weights with random numbers that are a function of the seed, of the tensor and of their
// place: the same in every layout. No tensor is constant, adapters included, so that each has its
// part in the loss. Collective over the zero group.
void fill_at_random(const model::ModelSpec& spec, uint64_t seed, shard::Zero& zero);

}  // namespace ringshard::prove
