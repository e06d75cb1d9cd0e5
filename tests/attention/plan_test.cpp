#include "ringshard/attention/plan.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <random>
#include <set>

using namespace ringshard::attention;

namespace {

std::vector<int64_t> held(const Layout& layout) {
    std::vector<int64_t> tokens;
    for (const Run& run : layout)
        for (int64_t t = 0; t < run.length; ++t) tokens.push_back(run.start + t);
    return tokens;
}

struct Case {
    int64_t length;
    int64_t ring;
    int64_t ulysses;
};
const std::vector<Case> cases{{1, 1, 1},  {7, 1, 1},   {24, 2, 1}, {97, 2, 2},
                              {97, 4, 1}, {160, 4, 2}, {33, 1, 4}, {5, 8, 1}};

std::vector<int64_t> random_starts(int64_t length, unsigned seed) {
    std::mt19937 random(seed);
    std::set<int64_t> starts{0};
    for (int i = 0; i < 6; ++i)
        starts.insert(static_cast<int64_t>(random() % static_cast<unsigned>(length)));
    return {starts.begin(), starts.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_token_is_held_once) {
    for (const auto& [length, ring, ulysses] : cases) {
        const SequencePartition partition(length, ring, ulysses);
        BOOST_TEST(partition.filled_length() >= length);
        BOOST_TEST(partition.filled_length() % (2 * ring * ulysses) == 0);
        std::vector<int64_t> all;
        for (int64_t r = 0; r < ring; ++r) {
            std::vector<int64_t> of_ring;
            for (int64_t u = 0; u < ulysses; ++u) {
                const auto part = held(partition.of_rank(r, u));
                BOOST_TEST(static_cast<int64_t>(part.size()) == partition.tokens_per_rank());
                of_ring.insert(of_ring.end(), part.begin(), part.end());
            }
            BOOST_TEST(of_ring == held(partition.of_ring_rank(r)));
            all.insert(all.end(), of_ring.begin(), of_ring.end());
        }
        std::sort(all.begin(), all.end());
        std::vector<int64_t> expected(static_cast<size_t>(partition.filled_length()));
        std::iota(expected.begin(), expected.end(), 0);
        BOOST_TEST(all == expected);
    }
}

BOOST_AUTO_TEST_CASE(one_long_document_is_the_same_work_for_every_ring_rank) {
    for (const int64_t ring : {2, 4, 8}) {
        const SequencePartition partition(16 * ring, ring, 1);
        const std::vector<int64_t> starts{0};
        std::set<int64_t> work;
        for (int64_t r = 0; r < ring; ++r) {
            int64_t area = 0;
            for (const auto& tiles : make_plan(partition, r, starts).steps)
                for (const Tile& tile : tiles)
                    area +=
                        tile.diagonal ? tile.num_q * (tile.num_q + 1) / 2 : tile.num_q * tile.num_k;
            work.insert(area);
        }
        BOOST_TEST(work.size() == 1U);
    }
}

// Tiles, expanded, are exactly the pairs of a query and an earlier or same key of its document,
// each once.
BOOST_AUTO_TEST_CASE(tiles_are_the_causal_mask_of_documents) {
    for (const auto& [length, ring, ulysses] : cases) {
        const SequencePartition partition(length, ring, ulysses);
        const int64_t filled = partition.filled_length();
        for (unsigned seed = 0; seed < 5; ++seed) {
            const auto starts = random_starts(filled, seed);
            const auto positions = positions_in_documents(filled, starts);
            std::map<std::pair<int64_t, int64_t>, int> seen;
            for (int64_t r = 0; r < ring; ++r) {
                const Plan plan = make_plan(partition, r, starts);
                const auto queries = held(partition.of_ring_rank(r));
                for (int64_t step = 0; step < ring; ++step) {
                    const auto keys = held(partition.of_ring_rank((r + ring - step) % ring));
                    for (const Tile& tile : plan.steps[static_cast<size_t>(step)])
                        for (int64_t q = 0; q < tile.num_q; ++q)
                            for (int64_t k = 0; k < (tile.diagonal ? q + 1 : tile.num_k); ++k)
                                ++seen[{queries[static_cast<size_t>(tile.q + q)],
                                        keys[static_cast<size_t>(tile.k + k)]}];
                }
            }
            size_t expected = 0;
            bool all_once = true;
            for (int64_t q = 0; q < filled; ++q) {
                for (int64_t k = q - positions[static_cast<size_t>(q)]; k <= q; ++k) {
                    ++expected;
                    all_once = all_once && seen[{q, k}] == 1;
                }
            }
            BOOST_TEST(all_once);
            BOOST_TEST(seen.size() == expected);
        }
    }
}
