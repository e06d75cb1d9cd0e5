#include "ringshard/attention/plan.hpp"

#include <algorithm>
#include <utility>

#include "ringshard/base/error.hpp"

namespace ringshard::attention {

double visible_pairs(double length, const Mask& mask) {
    if (!mask.window || length <= static_cast<double>(*mask.window)) return length * length / 2;
    const auto window = static_cast<double>(*mask.window);
    return window * length - window * window / 2;
}

namespace {

// The tokens of each document, with those that a branch shares.
std::vector<int64_t> lengths_of_documents(const SequencePartition& partition) {
    const std::vector<int64_t>& starts = partition.document_starts();
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < starts.size(); ++i)
        lengths.push_back((i + 1 < starts.size() ? starts[i + 1] : partition.filled_length()) -
                          starts[i]);
    for (const Branch& branch : partition.branches()) lengths[branch.document] += branch.length;
    return lengths;
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

// All tiles of the queries of one ring rank and the keys of another.
std::vector<Tile> tiles_between(int64_t queries, int64_t keys, const SequencePartition& partition,
                                const Mask& mask) {
    const Layout& of_queries = partition.of_ring_rank(queries);
    const Layout& of_keys = partition.of_ring_rank(keys);
    std::vector<Tile> tiles = make_tiles(of_queries, of_keys, partition.document_starts(), mask);
    const std::vector<Tile> more = make_tiles_of_branches(of_queries, of_keys, partition, mask);
    tiles.insert(tiles.end(), more.begin(), more.end());
    return tiles;
}

// Every rank knows the tokens of all others, so each finds by itself which tokens go to which rank.
void plan_exchange(const SequencePartition& partition, int64_t ring_rank, const Mask& mask,
                   Plan& plan) {
    const auto tiles_of = [&](int64_t queries, int64_t keys) {
        return tiles_between(queries, keys, partition, mask);
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
    const bool is_narrow =
        mask.window && *mask.window < std::ranges::max(lengths_of_documents(partition));
    Plan plan;
    plan.num_tokens = num_tokens(partition.of_ring_rank(ring_rank));
    plan.meets_once = partition.ring() == 1;
    if (mask.through_state) {
        RINGSHARD_CHECK(partition.branches().empty(), "states pass through no branch");
        plan.chain = make_chain(partition, ring_rank);
        return plan;
    }
    if (is_narrow && partition.ring() > 1) {
        plan_exchange(partition, ring_rank, mask, plan);
        return plan;
    }
    const Mask of_tiles = is_narrow ? mask : Mask{};
    if (partition.ring() == 1) {
        const Layout& all = partition.of_ring_rank(0);
        plan.steps = {make_tiles(all, all, partition.document_starts(), of_tiles)};
        auto of_branches = make_tiles_of_branches(all, all, partition, of_tiles);
        if (!of_branches.empty()) plan.steps.push_back(std::move(of_branches));
        return plan;
    }
    for (int64_t step = 0; step < partition.ring(); ++step) {
        const int64_t other = (ring_rank + partition.ring() - step) % partition.ring();
        plan.steps.push_back(tiles_between(ring_rank, other, partition, of_tiles));
    }
    return plan;
}

std::vector<Plan> make_plans(const SequencePartition& partition, int64_t ring_rank,
                             std::span<const Mask> masks) {
    std::vector<Plan> plans;
    for (const Mask& mask : masks) plans.push_back(make_plan(partition, ring_rank, mask));
    return plans;
}

std::vector<int64_t> positions_in_documents(const SequencePartition& partition) {
    std::vector<int64_t> before(partition.document_starts().size());  // tokens that are shared
    for (const Branch& branch : partition.branches()) before[branch.document] = branch.length;
    std::vector<int64_t> positions;
    positions.reserve(static_cast<size_t>(partition.filled_length()));
    const std::vector<int64_t> lengths = lengths_of_documents(partition);
    for (size_t document = 0; document < lengths.size(); ++document)
        for (int64_t position = before[document]; position < lengths[document]; ++position)
            positions.push_back(position);
    return positions;
}

std::vector<int64_t> document_lengths(const SequencePartition& partition) {
    const std::vector<int64_t> lengths = lengths_of_documents(partition);
    std::vector<int64_t> of_tokens(static_cast<size_t>(partition.filled_length()), lengths.back());
    const std::vector<int64_t>& starts = partition.document_starts();
    for (size_t document = 0; document + 1 < starts.size(); ++document)
        std::fill(of_tokens.begin() + starts[document], of_tokens.begin() + starts[document + 1],
                  lengths[document]);
    return of_tokens;
}

}  // namespace ringshard::attention
