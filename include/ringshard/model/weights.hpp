#pragma once

#include <optional>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/safetensors.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::model {

// Does the file hold every weight of the units, in its shape, and no other? Looks at names and
// shapes only. Where the head is tied, lm_head.weight may lie there: it is read if the embedding
// does not. The embedding and the head have spec.stored_vocabulary rows there.
std::optional<Failure> check_weights(const StoredModel& stored, const ModelSpec& spec,
                                     const std::vector<shard::FlatUnit>& units);

// Copies the weights of the file into this rank's shards, touching no more of it than they need.
// Rows that the file does not have stay as they are. Counts the bytes that it has read. Not
// collective: ranks may fail by themselves, and agree afterwards.
std::optional<Failure> load_weights(const StoredModel& stored, const ModelSpec& spec,
                                    shard::Zero& zero, ByteCounter& bytes);

// Sets the rows of the embedding and of the head that the files do not have to the mean of those
// that they have: the same bits in every layout. Collective over the world.
void set_added_rows(const ModelSpec& spec, shard::Zero& zero, const comm::Group& world);

}  // namespace ringshard::model
