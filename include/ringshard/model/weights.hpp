#pragma once

#include <optional>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/model/safetensors.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::model {

// Does the file hold every weight of the units, in its shape, and no other? Looks at names and
// shapes only. `tied`: an lm_head may lie there and is not read.
std::optional<Failure> check_weights(const StoredModel& stored, bool tied,
                                     const std::vector<shard::FlatUnit>& units);

// Copies the weights of the file into this rank's shards, touching no more of it than they need.
// Not collective: ranks may fail by themselves, and agree afterwards.
std::optional<Failure> load_weights(const StoredModel& stored, bool tied, shard::Zero& zero);

}  // namespace ringshard::model
