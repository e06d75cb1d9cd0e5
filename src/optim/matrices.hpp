#pragma once

#include <vector>

#include "ringshard/shard/zero.hpp"

namespace ringshard::optim {

// A matrix among the weights of a shelf.
struct Matrix {
    size_t unit;
    shard::Range range;  // of the unit
    int64_t rows;
    int64_t columns;
    size_t variant;
};

// Vectors of experts that lie in one tensor: ranks and slices divide it between them.
bool is_stack_of_vectors(const shard::ParameterGroup& group);

// The matrices of all units of a shelf, or of this rank's sections of them, in their order.
std::vector<Matrix> matrices_of(const shard::Zero& zero, const shard::Shelf& shelf);

}  // namespace ringshard::optim
