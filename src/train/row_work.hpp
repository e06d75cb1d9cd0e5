#pragma once

#include <span>
#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/model/operations.hpp"

namespace ringshard::train {

// Operations of some rows, were there a backward pass too.
double operations_of_rows(const model::Operations& operations, const data::Rows& rows,
                          std::span<const int64_t> numbers);

// Returns, for each round, the operations of the rank that has most. `mine`: the operations of this
// rank in each round. Collective over the world.
std::vector<double> largest_of_rounds(std::span<const double> mine, const comm::Group& world);

}  // namespace ringshard::train
