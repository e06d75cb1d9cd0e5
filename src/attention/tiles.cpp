#include <algorithm>
#include <optional>
#include <utility>

#include "document_pieces.hpp"
#include "ringshard/attention/plan.hpp"
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

// Appends a tile, or extends the last one if its queries are adjacent and see the same keys.
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

// Adds the tiles of queries and keys of one document that are not the same tokens. A piece of
// queries sees a prefix of the pieces of keys; these are adjacent in the tokens of their rank.
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
        if (num_k > 0) append(tiles, {piece.offset, k, piece.length, num_k, ops::every_key});
    }
}

// The keys of one piece that lie in the windows of the queries of another, or of the same one.
std::optional<Tile> tile_in_window(const Piece& queries, const Piece& keys, int64_t window) {
    // Query i sees the keys from i + first to i + distance.
    const int64_t distance = queries.start - keys.start;
    const int64_t first = distance - window + 1;
    const int64_t skipped = std::max<int64_t>(0, first);  // keys that no query sees
    const int64_t num_q = std::min(queries.length, keys.length - first);
    if (skipped >= keys.length || num_q <= 0) return std::nullopt;
    const int64_t num_k = keys.length - skipped;
    ops::Band band{.back = skipped - first, .ahead = distance - skipped};
    if (band.back >= num_q - 1) band.back = ops::Band::unlimited;
    if (band.ahead >= num_k - 1 && distance > 0) band.ahead = ops::Band::unlimited;
    return Tile{queries.offset, keys.offset + skipped, num_q, num_k, band};
}

// Each piece of queries with each piece of keys of the same document: a document has few pieces.
void add_tiles_in_window(Pieces queries, Pieces keys, int64_t window, std::vector<Tile>& tiles) {
    for (const Piece& q : queries)
        for (const Piece& k : keys) {
            if (k.start > q.start) break;
            RINGSHARD_CHECK(k.start == q.start || k.start + k.length <= q.start, "runs overlap");
            if (const auto tile = tile_in_window(q, k, window)) tiles.push_back(*tile);
        }
}

int64_t length_of(Pieces pieces) {
    return pieces.back().offset + pieces.back().length - pieces.front().offset;
}

// A rank holds the tokens of a document in their order: among themselves they are causal, even if
// they are not adjacent in the uncut list.
std::vector<Tile> diagonal_tiles(Pieces pieces) {
    std::vector<Tile> tiles;
    while (!pieces.empty()) {
        const Pieces document = first_document(pieces);
        const int64_t length = length_of(document);
        tiles.push_back({document[0].offset, document[0].offset, length, length, ops::causal});
        pieces = pieces.subspan(document.size());
    }
    return tiles;
}

// The tiles of queries and keys that are not the same tokens, or that windows cut.
std::vector<Tile> tiles_in_documents(Pieces q, Pieces k, const Mask& mask) {
    std::vector<Tile> tiles;
    while (!q.empty() && !k.empty()) {
        const Pieces q_document = first_document(q);
        const Pieces k_document = first_document(k);
        const auto [a, b] = std::pair(q[0].document, k[0].document);
        if (a == b && mask.window)
            add_tiles_in_window(q_document, k_document, *mask.window, tiles);
        else if (a == b)
            add_tiles(q_document, k_document, tiles);
        if (a <= b) q = q.subspan(q_document.size());
        if (b <= a) k = k.subspan(k_document.size());
    }
    return tiles;
}

// The pieces of one document.
Pieces of_document(Pieces pieces, size_t document) {
    const auto range = std::ranges::equal_range(pieces, document, {}, &Piece::document);
    return {range.begin(), range.end()};
}

// The parts of pieces that stand before `end` in the uncut list.
std::vector<Piece> before(Pieces pieces, int64_t end) {
    std::vector<Piece> parts;
    for (Piece piece : pieces) {
        piece.length = std::min(piece.length, end - piece.start);
        if (piece.length > 0) parts.push_back(piece);
    }
    return parts;
}

}  // namespace

std::vector<Tile> make_tiles(const Layout& queries, const Layout& keys,
                             std::span<const int64_t> document_starts, const Mask& mask) {
    const std::vector<Piece> query_pieces = cut_by_documents(queries, document_starts);
    if (queries == keys && !mask.window) return diagonal_tiles(query_pieces);
    return tiles_in_documents(query_pieces, cut_by_documents(keys, document_starts), mask);
}

std::vector<Tile> make_tiles_of_branches(const Layout& queries, const Layout& keys,
                                         const SequencePartition& partition, const Mask& mask) {
    if (partition.branches().empty()) return {};
    const std::vector<int64_t>& starts = partition.document_starts();
    const std::vector<Piece> query_pieces = cut_by_documents(queries, starts);
    const std::vector<Piece> key_pieces = cut_by_documents(keys, starts);
    std::vector<Tile> tiles;
    for (const Branch& branch : partition.branches()) {
        const int64_t end = starts[branch.stem] + branch.length;
        const std::vector<Piece> stem = before(of_document(key_pieces, branch.stem), end);
        const Pieces own = of_document(query_pieces, branch.document);
        if (stem.empty() || own.empty()) continue;
        if (!mask.window) {
            tiles.push_back({own.front().offset, stem.front().offset, length_of(own),
                             length_of(stem), ops::every_key});
            continue;
        }
        for (Piece piece : own) {
            piece.start += end - starts[branch.document];
            for (const Piece& seen : stem)
                if (const auto tile = tile_in_window(piece, seen, *mask.window))
                    tiles.push_back(*tile);
        }
    }
    return tiles;
}

}  // namespace ringshard::attention
