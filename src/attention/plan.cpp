#include "ringshard/attention/plan.hpp"

#include <algorithm>
#include <utility>

#include "document_pieces.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::attention {

namespace {

using Pieces = std::span<const Piece>;

// The pieces of the first document.
Pieces first_document(Pieces pieces) {
    size_t count = 0;
    while (count < pieces.size() && pieces[count].document == pieces[0].document) ++count;
    return pieces.first(count);
}

// Two tiles that are one: the next queries see the same keys.
void append(std::vector<Tile>& tiles, const Tile& tile) {
    if (!tiles.empty()) {
        Tile& last = tiles.back();
        const bool same_keys = last.k == tile.k && last.num_k == tile.num_k;
        if (same_keys && last.q + last.num_q == tile.q) {
            last.num_q += tile.num_q;
            return;
        }
    }
    tiles.push_back(tile);
}

// Queries and keys of one document that are not the same tokens: what a piece of queries sees are
// the first so many pieces of keys, and these lie side by side.
void add_tiles(Pieces queries, Pieces keys, std::vector<Tile>& tiles) {
    const int64_t k = keys[0].offset;
    int64_t num_k = 0;
    size_t seen = 0;
    for (const Piece& piece : queries) {
        for (; seen < keys.size() && keys[seen].start < piece.start; ++seen) {
            RINGSHARD_CHECK(keys[seen].start + keys[seen].length <= piece.start, "runs overlap");
            num_k += keys[seen].length;
        }
        const int64_t end = piece.start + piece.length;
        RINGSHARD_CHECK(seen == keys.size() || keys[seen].start >= end, "runs overlap");
        if (num_k > 0) append(tiles, {piece.offset, k, piece.length, num_k, false});
    }
}

int64_t length_of(Pieces pieces) {
    return pieces.back().offset + pieces.back().length - pieces.front().offset;
}

// A rank holds the tokens of a document in their order, so among themselves they are causal
// whatever lies between them in the uncut list.
std::vector<Tile> diagonal_tiles(Pieces pieces) {
    std::vector<Tile> tiles;
    while (!pieces.empty()) {
        const Pieces document = first_document(pieces);
        const int64_t length = length_of(document);
        tiles.push_back({document[0].offset, document[0].offset, length, length, true});
        pieces = pieces.subspan(document.size());
    }
    return tiles;
}

}  // namespace

std::vector<Tile> make_tiles(const Layout& queries, const Layout& keys,
                             std::span<const int64_t> document_starts) {
    const std::vector<Piece> query_pieces = cut_by_documents(queries, document_starts);
    if (queries == keys) return diagonal_tiles(query_pieces);
    const std::vector<Piece> key_pieces = cut_by_documents(keys, document_starts);
    std::vector<Tile> tiles;
    Pieces q = query_pieces;
    Pieces k = key_pieces;
    while (!q.empty() && !k.empty()) {
        const Pieces q_document = first_document(q);
        const Pieces k_document = first_document(k);
        const auto [a, b] = std::pair(q[0].document, k[0].document);
        if (a == b) add_tiles(q_document, k_document, tiles);
        if (a <= b) q = q.subspan(q_document.size());
        if (b <= a) k = k.subspan(k_document.size());
    }
    return tiles;
}

Plan make_plan(const SequencePartition& partition, int64_t ring_rank) {
    const Layout& mine = partition.of_ring_rank(ring_rank);
    Plan plan;
    plan.num_tokens = num_tokens(mine);
    for (int64_t step = 0; step < partition.ring(); ++step) {
        const int64_t other = (ring_rank + partition.ring() - step) % partition.ring();
        plan.steps.push_back(
            make_tiles(mine, partition.of_ring_rank(other), partition.document_starts()));
    }
    plan.meets_once = partition.ring() == 1;
    return plan;
}

std::vector<int64_t> positions_in_documents(int64_t num_tokens,
                                            std::span<const int64_t> document_starts) {
    std::vector<int64_t> positions(static_cast<size_t>(num_tokens));
    for (size_t document = 0; document < document_starts.size(); ++document) {
        const int64_t begin = document_starts[document];
        const int64_t end =
            document + 1 < document_starts.size() ? document_starts[document + 1] : num_tokens;
        for (int64_t t = begin; t < end; ++t) positions[static_cast<size_t>(t)] = t - begin;
    }
    return positions;
}

}  // namespace ringshard::attention
