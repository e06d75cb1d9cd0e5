#pragma once

#include <string>

#include "ringshard/comm/group.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// The first tensor, in the order of the model, whose gradient holds something that is no finite
// number; empty if none does. Collective over the world.
std::string first_bad_gradient(const shard::Zero& zero, const comm::Group& world);

}  // namespace ringshard::train
