#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ringshard/attention/chain.hpp"
#include "ringshard/attention/sequence_partition.hpp"
#include "ringshard/ops/band.hpp"

namespace ringshard::attention {

// The tokens of its document that a token sees: itself and all earlier ones, or as many as the
// window holds, itself included. Or a token sees earlier ones through a state that passes from
// token to token.
struct Mask {
    std::optional<int64_t> window{};
    bool through_state = false;
    auto operator<=>(const Mask&) const = default;
};

// Counts the pairs of a query and a key that it sees in one document, as if tokens were as small as
// can be: half the square of the length without a window.
double visible_pairs(double length, const Mask& mask);

// A rectangle of adjacent queries and adjacent keys of one document, or of a branch and its stem,
// that attend to each other: offsets in the tokens that this rank holds.
struct Tile {
    int64_t q;
    int64_t k;
    int64_t num_q;
    int64_t num_k;
    ops::Band band;
    bool operator==(const Tile&) const = default;
};

// Queries and keys are the same tokens or have none in common. document_starts: where documents
// begin in the uncut list, ascending from 0. Linear in runs and documents.
std::vector<Tile> make_tiles(const Layout& queries, const Layout& keys,
                             std::span<const int64_t> document_starts, const Mask& mask = {});
// The tiles of the queries of branches and the keys of their stems: the queries see the keys as if
// they stood behind them.
std::vector<Tile> make_tiles_of_branches(const Layout& queries, const Layout& keys,
                                         const SequencePartition& partition, const Mask& mask = {});

// The keys that ring ranks send to each other where each needs few of them.
struct KeyExchange {
    std::vector<Layout> sent;           // to each rank: runs of the tokens that this rank holds
    std::vector<int64_t> num_sent;      // tokens to each rank
    std::vector<int64_t> num_received;  // tokens from each rank
    bool operator==(const KeyExchange&) const = default;
};

// The kernel calls of a GPU for the tiles of a plan.
struct PreparedTiles;

// The tiles of one step, with their prepared kernel calls, if any.
struct StepTiles {
    StepTiles(std::span<const Tile> of_step, const PreparedTiles* calls = nullptr)
        : tiles(of_step), prepared(calls) {}
    StepTiles(const std::vector<Tile>& of_step, const PreparedTiles* calls = nullptr)
        : StepTiles(std::span(of_step), calls) {}
    std::span<const Tile> tiles;
    const PreparedTiles* prepared;
};

// Derived from the steps of a plan, so that comparing two plans ignores it.
struct PreparedSteps {
    std::vector<std::shared_ptr<const PreparedTiles>> steps{};
    bool operator==(const PreparedSteps&) const { return true; }
};

// The attention of one batch under one mask, seen from one ring rank. Made once per batch, used by
// every layer with that mask.
struct Plan {
    int64_t num_tokens = 0;  // of this ring rank
    // At step s the rank attends to the keys of the rank s places before it. With an exchange there
    // are two steps: its own keys, and those that it received, rank after rank. Where a rank holds
    // all of the list, branches and their stems are a second step.
    std::vector<std::vector<Tile>> steps;
    // Every query and every key is in one tile only of the first step, so that its results are
    // written and not merged: true where a rank holds all of the list.
    bool meets_once = false;
    std::optional<KeyExchange> exchange{};
    std::optional<Chain> chain{};  // of a mask through states, which has no tiles
    PreparedSteps prepared{};
    bool operator==(const Plan&) const = default;

    // Returns true if every result is written and not merged.
    bool never_merges() const { return meets_once && steps.size() == 1; }
    StepTiles step(size_t number) const {
        return {steps.at(number),
                prepared.steps.empty() ? nullptr : prepared.steps.at(number).get()};
    }
};
Plan make_plan(const SequencePartition& partition, int64_t ring_rank, const Mask& mask = {});
std::vector<Plan> make_plans(const SequencePartition& partition, int64_t ring_rank,
                             std::span<const Mask> masks);

// Positions count within the document, of which those of a branch go on behind its stem.
std::vector<int64_t> positions_in_documents(const SequencePartition& partition);
// For each token, how many tokens its document has, with those that a branch shares.
std::vector<int64_t> document_lengths(const SequencePartition& partition);

}  // namespace ringshard::attention
