#pragma once

#include <cstdint>
#include <vector>

namespace ringshard::data {

// numpy.random.default_rng(seed).permutation(size): what shuffles a dataset in Python.
std::vector<int64_t> numpy_permutation(uint64_t seed, int64_t size);

}  // namespace ringshard::data
