#pragma once

#include <vector>

#include "ringshard/attention/sequence_partition.hpp"

namespace ringshard::attention {

// Queries and keys that meet: offsets in what a rank holds, and all of one document. diagonal: they
// are the same tokens, and each query sees the keys up to itself; else every query sees every key.
struct Tile {
    int64_t q;
    int64_t k;
    int64_t num_q;
    int64_t num_k;
    bool diagonal;
    bool operator==(const Tile&) const = default;
};

// A token sees the earlier tokens of its own document and itself. document_starts: where documents
// begin in the uncut list, ascending from 0. Queries and keys are the same tokens or have none in
// common. Linear in runs and documents.
std::vector<Tile> make_tiles(const Layout& queries, const Layout& keys,
                             std::span<const int64_t> document_starts);

// The attention of one batch, seen from one ring rank: at step s it meets the keys of the rank s
// places before it. Made once per batch, used by every layer.
struct Plan {
    int64_t num_tokens = 0;  // of this ring rank
    std::vector<std::vector<Tile>> steps;
    // Every query and every key is in one tile only, so that results are written and not merged:
    // true of any documents where a rank holds all of the list.
    bool meets_once = false;
    bool operator==(const Plan&) const = default;
};
Plan make_plan(const SequencePartition& partition, int64_t ring_rank);

// Positions count within the document.
std::vector<int64_t> positions_in_documents(int64_t num_tokens,
                                            std::span<const int64_t> document_starts);

}  // namespace ringshard::attention
