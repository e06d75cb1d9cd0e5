#pragma once

#include <string>

#include "ringshard/base/faults.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/optim/adamw.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// Several ranks may hold copies of the same numbers: of whole weights where these are not cut, of
// shards where the model is replicated. Collective over the world.
bool are_held_twice(const shard::Zero& zero, const comm::Group& world);

// Which rank's copy differs from the others', and where, in
// words; empty if none does, or nothing is held twice. Collective over the world.
std::string find_odd_replica(const shard::Zero& zero, const optim::AdamW& optimizer,
                             const comm::Group& world);

// What a fault of the memory does to one weight of this rank. For tests.
void spoil_weights(const shard::Zero& zero, Faults::Spoil how);

}  // namespace ringshard::train
