#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"

namespace ringshard::checkpoint {

// Joins ranges of a manifest that are adjacent in a file. A dataset keeps one part in state.h5, or
// one per node with a file per node, however many ranks wrote it.
StoredParts join_ranges(const std::vector<WrittenRange>& ranges);

// Sends rank 0's `parts` to all ranks. Collective over the group.
StoredParts broadcast_parts(const StoredParts& parts, const comm::Group& group);

}  // namespace ringshard::checkpoint
