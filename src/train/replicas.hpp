#pragma once

#include <string>

#include "ringshard/base/faults.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// Several ranks may hold copies of the same numbers: of whole weights where these are not cut, of
// shards where the model is replicated. Collective over the world.
bool are_held_twice(const shard::Zero& zero, const comm::Group& world);

// After every so many steps (0: never): fails where one rank's copy differs from the others', with
// its name and the unit. Collective over the world.
std::optional<comm::AgreedFailure> check_replicas(const shard::Zero& zero,
                                                  const optim::Optimizer& optimizer,
                                                  const comm::Group& world, int64_t step,
                                                  int64_t every);

// Corrupts one weight of this rank, as a memory fault would. For tests.
void corrupt_weights(const shard::Zero& zero, Faults::Corruption how);

}  // namespace ringshard::train
