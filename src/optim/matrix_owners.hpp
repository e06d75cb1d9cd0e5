#pragma once

#include <cstdint>
#include <vector>

namespace ringshard::optim {

// Operations of the Newton-Schulz iteration of a matrix.
double orthogonalization_work(int64_t rows, int64_t columns, int64_t steps);

// Distributes matrices over ranks by their work: each one, the largest first, to the rank with the
// least work so far. Returns the matrices of each rank, the largest first.
std::vector<std::vector<size_t>> distribute_matrices(const std::vector<double>& works, int ranks);

}  // namespace ringshard::optim
