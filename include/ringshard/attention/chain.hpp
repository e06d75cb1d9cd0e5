#pragma once

#include <optional>
#include <vector>

#include "ringshard/attention/sequence_partition.hpp"
#include "ringshard/ops/stretch.hpp"

namespace ringshard::attention {

// Rows that a causal convolution reads before its own.
inline constexpr int64_t rows_before = 3;

// How states pass through the documents of one batch, seen from one ring rank. A document that lies
// on several ranks, or twice on one, is cut into stretches: these are the slots of an exchange, in
// which every rank has equally many, some of them empty. The slots of rank r begin at r x slots.
struct Chain {
    std::vector<ops::Stretch> stretches;  // of this rank, in its order: they cover its tokens
    int64_t slots = 0;                    // of each rank
    std::vector<size_t> cut;              // those of the stretches that are the slots of this rank

    // A stretch of a cut document.
    struct Link {
        int64_t slot;                   // of all ranks
        std::optional<size_t> stretch;  // where it is this rank's
        bool operator==(const Link&) const = default;
    };
    // The stretches of each cut document of which this rank holds a part, in their order.
    std::vector<std::vector<Link>> documents;

    // A row that this rank holds, or that stands before one of its stretches; rows of slots are the
    // last, or the ones before, of the stretch: slot x rows_before + row.
    struct Row {
        int64_t mine;
        int64_t of_slots;
        bool operator==(const Row&) const = default;
    };
    // Where the rows before this rank's stretches (stretch x rows_before + row) come from.
    std::vector<Row> before;
    // The rows of this rank (rows of tokens) that stand before other stretches.
    std::vector<Row> reached;
    bool operator==(const Chain&) const = default;
};

Chain make_chain(const SequencePartition& partition, int64_t ring_rank);

}  // namespace ringshard::attention
