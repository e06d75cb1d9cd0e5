#pragma once

#include "ringshard/checkpoint/saver.hpp"
#include "state_exchange.hpp"

namespace ringshard::checkpoint {

// Ranks that take part in saves; nothing else travels here.
struct SaveGroups {
    SaveGroups(const comm::Group& world, std::optional<int64_t> ranks_per_node);

    comm::Group world;
    comm::Group node;
    int64_t node_index;
    int64_t num_nodes;
};

// One checkpoint that shall come into being.
struct SaveJob {
    Progress progress;
    Claim claim;
    Contents contents;
    std::vector<DatasetSpec> datasets;  // of all ranks together
    std::vector<OwnPiece> pieces;
    Extras extras;
    std::optional<int64_t> limit;  // as Retention has it
};

// A checkpoint is there, whole, when this returns without a failure, or it is not there at all.
// Collective over the groups.
SaveOutcome save(const SaveJob& job, const SaveOptions& options, const SaveGroups& groups,
                 Faults& faults);

}  // namespace ringshard::checkpoint
