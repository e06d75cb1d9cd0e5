#pragma once

#include "ringshard/checkpoint/saver.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

// Groups for saves alone, so that their messages do not mix with those of training.
struct SaveGroups {
    SaveGroups(const comm::Group& world, std::optional<int64_t> ranks_per_node);

    comm::Group world;
    comm::Group node;
    int64_t node_index;
    int64_t num_nodes;
};

// The input of one save.
struct SaveJob {
    Progress progress;
    Claim claim;
    Contents contents;
    std::vector<DatasetSpec> datasets;  // of all ranks
    std::vector<OwnPiece> pieces;
    Extras extras;
    std::optional<int64_t> limit;  // as in Retention
};

// Writes a checkpoint: it exists, whole, if this returns without a failure, and does not exist
// otherwise. Collective over the groups.
SaveOutcome save(const SaveJob& job, const SaveOptions& options, const SaveGroups& groups,
                 Faults& faults);

}  // namespace ringshard::checkpoint
