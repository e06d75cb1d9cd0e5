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

}  // namespace

double visible_pairs(double length, const Mask& mask) {
    if (!mask.window || length <= static_cast<double>(*mask.window)) return length * length / 2;
    const auto window = static_cast<double>(*mask.window);
    return window * length - window * window / 2;
}

std::vector<Tile> make_tiles(const Layout& queries, const Layout& keys,
                             std::span<const int64_t> document_starts, const Mask& mask) {
    const std::vector<Piece> query_pieces = cut_by_documents(queries, document_starts);
    if (queries == keys && !mask.window) return diagonal_tiles(query_pieces);
    const std::vector<Piece> key_pieces = cut_by_documents(keys, document_starts);
    std::vector<Tile> tiles;
    Pieces q = query_pieces;
    Pieces k = key_pieces;
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

namespace {

int64_t longest_document(const SequencePartition& partition) {
    const std::vector<int64_t>& starts = partition.document_starts();
    int64_t longest = partition.filled_length() - starts.back();
    for (size_t i = 1; i < starts.size(); ++i)
        longest = std::max(longest, starts[i] - starts[i - 1]);
    return longest;
}

// The keys that tiles need, in the order in which their rank holds them: runs of its tokens.
Layout keys_of(std::vector<Tile> tiles) {
    std::ranges::sort(tiles, {}, &Tile::k);
    Layout keys;
    for (const Tile& tile : tiles) {
        const int64_t end = tile.k + tile.num_k;
        if (!keys.empty() && tile.k <= keys.back().start + keys.back().length)
            keys.back().length = std::max(keys.back().length, end - keys.back().start);
        else
            keys.push_back({tile.k, tile.num_k});
    }
    return keys;
}

// Moves tiles from the tokens of another rank to where its keys `received` lie from `begin` on.
void move_to(int64_t begin, const Layout& received, std::vector<Tile>& tiles) {
    std::vector<int64_t> places;
    for (const Run& run : received) {
        places.push_back(begin);
        begin += run.length;
    }
    for (Tile& tile : tiles) {
        const auto run = std::prev(std::ranges::upper_bound(received, tile.k, {}, &Run::start));
        tile.k += places[static_cast<size_t>(run - received.begin())] - run->start;
    }
}

// Every rank knows the tokens of all others, so each finds by itself which tokens go to which rank.
void plan_exchange(const SequencePartition& partition, int64_t ring_rank, const Mask& mask,
                   Plan& plan) {
    const auto tiles_of = [&](int64_t queries, int64_t keys) {
        return make_tiles(partition.of_ring_rank(queries), partition.of_ring_rank(keys),
                          partition.document_starts(), mask);
    };
    KeyExchange exchange;
    std::vector<Tile> met;  // with received keys
    int64_t num_received = 0;
    for (int64_t other = 0; other < partition.ring(); ++other) {
        const bool is_other = other != ring_rank;
        exchange.sent.push_back(is_other ? keys_of(tiles_of(other, ring_rank)) : Layout{});
        exchange.num_sent.push_back(num_tokens(exchange.sent.back()));
        std::vector<Tile> tiles = is_other ? tiles_of(ring_rank, other) : std::vector<Tile>{};
        const Layout received = keys_of(tiles);
        move_to(num_received, received, tiles);
        met.insert(met.end(), tiles.begin(), tiles.end());
        exchange.num_received.push_back(num_tokens(received));
        num_received += exchange.num_received.back();
    }
    plan.steps = {tiles_of(ring_rank, ring_rank), std::move(met)};
    plan.exchange = std::move(exchange);
}

}  // namespace

Plan make_plan(const SequencePartition& partition, int64_t ring_rank, const Mask& mask) {
    const Layout& mine = partition.of_ring_rank(ring_rank);
    const bool is_narrow = mask.window && *mask.window < longest_document(partition);
    Plan plan;
    plan.num_tokens = num_tokens(mine);
    plan.meets_once = partition.ring() == 1;
    if (mask.through_state) {
        plan.chain = make_chain(partition, ring_rank);
        return plan;
    }
    if (is_narrow && partition.ring() > 1) {
        plan_exchange(partition, ring_rank, mask, plan);
        return plan;
    }
    for (int64_t step = 0; step < partition.ring(); ++step) {
        const int64_t other = (ring_rank + partition.ring() - step) % partition.ring();
        plan.steps.push_back(make_tiles(mine, partition.of_ring_rank(other),
                                        partition.document_starts(), is_narrow ? mask : Mask{}));
    }
    return plan;
}

std::vector<Plan> make_plans(const SequencePartition& partition, int64_t ring_rank,
                             std::span<const Mask> masks) {
    std::vector<Plan> plans;
    for (const Mask& mask : masks) plans.push_back(make_plan(partition, ring_rank, mask));
    return plans;
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

std::vector<int64_t> document_lengths(int64_t num_tokens,
                                      std::span<const int64_t> document_starts) {
    std::vector<int64_t> lengths(static_cast<size_t>(num_tokens));
    for (size_t document = 0; document < document_starts.size(); ++document) {
        const int64_t begin = document_starts[document];
        const int64_t end =
            document + 1 < document_starts.size() ? document_starts[document + 1] : num_tokens;
        std::fill_n(lengths.begin() + begin, end - begin, end - begin);
    }
    return lengths;
}

}  // namespace ringshard::attention
