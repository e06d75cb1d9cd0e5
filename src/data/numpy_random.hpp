#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ringshard/data/row_plan.hpp"

namespace ringshard::data {

// Returns numpy.random.default_rng(seed).permutation(size), as Python code shuffles a dataset.
std::vector<int64_t> numpy_permutation(uint64_t seed, int64_t size);
// Reorders items in place by numpy_permutation().
void numpy_shuffle(uint64_t seed, std::span<int64_t> items);
void numpy_shuffle(uint64_t seed, std::span<Piece> items);

// Draws like repeated calls of numpy.random.default_rng(seed).choice(len(shares), p=shares).
class NumpyChoice {
public:
    // shares: above 0, with sum 1.
    NumpyChoice(uint64_t seed, std::span<const double> shares);
    ~NumpyChoice();
    NumpyChoice(NumpyChoice&&) = delete;
    std::size_t next();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ringshard::data
