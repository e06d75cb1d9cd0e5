#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringshard/data/row_plan.hpp"

namespace ringshard::data {

// numpy.random.default_rng(seed).permutation(size): what shuffles a dataset in Python.
std::vector<int64_t> numpy_permutation(uint64_t seed, int64_t size);
// Brings items into the order of numpy_permutation(), in place.
void numpy_shuffle(uint64_t seed, std::span<int64_t> items);
void numpy_shuffle(uint64_t seed, std::span<Piece> items);

}  // namespace ringshard::data
