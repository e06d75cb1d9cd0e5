#pragma once

#include <string>

#include "ringshard/comm/group.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// Returns the name of the first tensor, in the order of the model, whose gradient is not finite;
// empty if all are finite. Collective over the world.
std::string first_non_finite_gradient(const shard::Zero& zero, const comm::Group& world);

}  // namespace ringshard::train
