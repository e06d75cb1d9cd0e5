#include "ringshard/attention/plan.hpp"

#include <algorithm>
#include <functional>

#include "ringshard/base/error.hpp"

namespace ringshard::attention {

namespace {

// Documents cut a pair of runs into tiles.
class RunPair {
public:
    RunPair(const Run& queries, const Run& keys, int64_t query_offset, int64_t key_offset)
        : queries_(queries), keys_(keys), query_offset_(query_offset), key_offset_(key_offset) {
        const bool disjoint = keys.start + keys.length <= queries.start ||
                              queries.start + queries.length <= keys.start;
        RINGSHARD_CHECK(disjoint || queries == keys, "runs overlap in part");
    }

    bool is_seen() const { return keys_ == queries_ || keys_.start < queries_.start; }

    // The part of the pair inside the document [begin, end).
    void add_tile(int64_t begin, int64_t end, std::vector<Tile>& tiles) const {
        const int64_t q_begin = std::max(begin, queries_.start);
        const int64_t q_end = std::min(end, queries_.start + queries_.length);
        const int64_t k_begin = std::max(begin, keys_.start);
        const int64_t k_end = std::min(end, keys_.start + keys_.length);
        if (q_begin >= q_end || k_begin >= k_end) return;
        tiles.push_back({query_offset_ + q_begin - queries_.start,
                         key_offset_ + k_begin - keys_.start, q_end - q_begin, k_end - k_begin,
                         keys_ == queries_});
    }

private:
    Run queries_;
    Run keys_;
    int64_t query_offset_;
    int64_t key_offset_;
};

}  // namespace

std::vector<Tile> make_tiles(const Layout& queries, const Layout& keys,
                             std::span<const int64_t> document_starts) {
    std::vector<Tile> tiles;
    int64_t query_offset = 0;
    for (const Run& query_run : queries) {
        int64_t key_offset = 0;
        for (const Run& key_run : keys) {
            const RunPair pair(query_run, key_run, query_offset, key_offset);
            key_offset += key_run.length;
            if (!pair.is_seen() || query_run.length == 0) continue;
            // Only documents that reach into the queries matter.
            auto document =
                std::upper_bound(document_starts.begin(), document_starts.end(), query_run.start) -
                1;
            for (; document != document_starts.end() &&
                   *document < query_run.start + query_run.length;
                 ++document) {
                const bool is_last = document + 1 == document_starts.end();
                pair.add_tile(*document, is_last ? INT64_MAX : *(document + 1), tiles);
            }
        }
        query_offset += query_run.length;
    }
    return tiles;
}

namespace {

bool do_all_meet_once(const Plan& plan) {
    std::vector<bool> queries(static_cast<size_t>(plan.num_tokens));
    std::vector<bool> keys(queries.size());
    for (const auto& tiles : plan.steps) {
        for (const Tile& tile : tiles) {
            if (queries[static_cast<size_t>(tile.q)] || keys[static_cast<size_t>(tile.k)])
                return false;
            std::fill_n(queries.begin() + tile.q, tile.num_q, true);
            std::fill_n(keys.begin() + tile.k, tile.num_k, true);
        }
    }
    return std::ranges::all_of(queries, std::identity()) &&
           std::ranges::all_of(keys, std::identity());
}

}  // namespace

Plan make_plan(const SequencePartition& partition, int64_t ring_rank,
               std::span<const int64_t> document_starts) {
    const Layout mine = partition.of_ring_rank(ring_rank);
    Plan plan;
    plan.num_tokens = num_tokens(mine);
    for (int64_t step = 0; step < partition.ring(); ++step) {
        const int64_t other = (ring_rank + partition.ring() - step) % partition.ring();
        plan.steps.push_back(make_tiles(mine, partition.of_ring_rank(other), document_starts));
    }
    plan.meets_once = partition.ring() == 1 && do_all_meet_once(plan);
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
