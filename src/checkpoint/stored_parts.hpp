#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"

namespace ringshard::checkpoint {

// Joins the ranges of a manifest that lie side by side in a file. One part is left of a dataset
// in state.h5, and one per node where nodes have files of their own, however many ranks wrote it.
StoredParts join_ranges(const std::vector<WrittenRange>& ranges);

// Collective over the group; `parts` of rank 0 count.
StoredParts broadcast_parts(const StoredParts& parts, const comm::Group& group);

}  // namespace ringshard::checkpoint
