#include "ringshard/attention/plan.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "ringshard/base/error.hpp"

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

// Even seeds: anywhere; odd ones: near one end of the list, so that one document is long.
std::vector<int64_t> random_starts(int64_t length, unsigned seed) {
    std::mt19937 random(seed);
    std::set<int64_t> starts{0};
    const int64_t range = seed % 2 == 0 ? length : (length + 2) / 3;
    for (int i = 0; i < 6; ++i) {
        const auto start = static_cast<int64_t>(random() % static_cast<unsigned>(range));
        starts.insert(seed % 4 == 1 ? length - 1 - start : start);
    }
    return {starts.begin(), starts.end()};
}

bool is_cut_by_documents(const SequencePartition& partition) {
    return partition.of_ring_rank(0).size() > 2;
}

// How often a query of the uncut list meets a key.
using Pairs = std::map<std::pair<int64_t, int64_t>, int>;
void count_pairs(const std::vector<Tile>& tiles, const std::vector<int64_t>& queries,
                 const std::vector<int64_t>& keys, Pairs& seen) {
    for (const Tile& tile : tiles)
        for (int64_t q = 0; q < tile.num_q; ++q)
            for (int64_t k = std::max<int64_t>(0, q - tile.band.back);
                 k <= std::min(tile.num_k - 1, q + tile.band.ahead); ++k)
                ++seen[{queries.at(static_cast<size_t>(tile.q + q)),
                        keys.at(static_cast<size_t>(tile.k + k))}];
}

double tile_work(const Plan& plan) {
    int64_t area = 0;
    for (const auto& tiles : plan.steps)
        for (const Tile& tile : tiles)
            area += tile.band == ringshard::ops::causal ? tile.num_q * (tile.num_q + 1) / 2
                                                        : tile.num_q * tile.num_k;
    return static_cast<double>(area);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_token_is_held_once) {
    int cut_by_documents = 0;
    for (const auto& [length, ring, ulysses] : cases) {
        for (unsigned seed = 0; seed < 8; ++seed) {
            const SequencePartition partition(length, random_starts(length, seed), ring, ulysses);
            cut_by_documents += is_cut_by_documents(partition) ? 1 : 0;
            BOOST_TEST(partition.filled_length() >= length);
            BOOST_TEST(partition.filled_length() < length + 2 * ring * ulysses);
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
    BOOST_TEST(cut_by_documents > 5);
}

BOOST_AUTO_TEST_CASE(no_tokens_at_all_are_a_document_that_fills_up) {
    const SequencePartition partition(0, {}, 4, 2);
    BOOST_TEST(partition.filled_length() == 16);
    BOOST_TEST(partition.document_starts() == std::vector<int64_t>{0});
}

BOOST_AUTO_TEST_CASE(one_long_document_is_the_same_work_for_every_ring_rank) {
    for (const int64_t ring : {2, 4, 8}) {
        const SequencePartition partition(16 * ring, {0}, ring, 1);
        const RingWork work = partition.work();
        BOOST_TEST(work.worst == work.mean);
        for (int64_t r = 0; r < ring; ++r)
            BOOST_TEST(tile_work(make_plan(partition, r)) == work.mean);
    }
}

// Tiles, expanded, are exactly the pairs of a query and an earlier or same key of its document,
// each once, and of one document each.
BOOST_AUTO_TEST_CASE(tiles_are_the_causal_mask_of_documents) {
    int cut_by_documents = 0;
    for (const auto& [length, ring, ulysses] : cases) {
        for (unsigned seed = 0; seed < 12; ++seed) {
            const SequencePartition partition(length, random_starts(length, seed), ring, ulysses);
            cut_by_documents += is_cut_by_documents(partition) ? 1 : 0;
            const int64_t filled = partition.filled_length();
            const auto positions = positions_in_documents(partition);
            Pairs seen;
            RingWork work{0, 0};
            for (int64_t r = 0; r < ring; ++r) {
                const Plan plan = make_plan(partition, r);
                work.worst = std::max(work.worst, tile_work(plan));
                work.mean += tile_work(plan) / static_cast<double>(ring);
                const auto queries = held(partition.of_ring_rank(r));
                for (int64_t step = 0; step < ring; ++step) {
                    const auto keys = held(partition.of_ring_rank((r + ring - step) % ring));
                    BOOST_TEST(plan.steps[static_cast<size_t>(step)].size() <=
                               partition.document_starts().size());
                    count_pairs(plan.steps[static_cast<size_t>(step)], queries, keys, seen);
                }
            }
            BOOST_TEST(partition.work().worst == work.worst);
            BOOST_TEST(partition.work().mean == work.mean);
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
    BOOST_TEST(cut_by_documents > 5);
}

namespace {

// The keys that a rank receives by the plans of all ranks, as places in the uncut list.
std::vector<int64_t> received_keys(const std::vector<Plan>& plans,
                                   const SequencePartition& partition, int64_t rank) {
    std::vector<int64_t> keys;
    for (int64_t from = 0; from < partition.ring(); ++from) {
        const KeyExchange& exchange = *plans[static_cast<size_t>(from)].exchange;
        const auto held_there = held(partition.of_ring_rank(from));
        const size_t before = keys.size();
        for (const Run& run : exchange.sent[static_cast<size_t>(rank)])
            for (int64_t t = 0; t < run.length; ++t)
                keys.push_back(held_there.at(static_cast<size_t>(run.start + t)));
        const auto count = static_cast<int64_t>(keys.size() - before);
        BOOST_TEST(count == exchange.num_sent[static_cast<size_t>(rank)]);
        BOOST_TEST(
            count ==
            plans[static_cast<size_t>(rank)].exchange->num_received[static_cast<size_t>(from)]);
    }
    return keys;
}

}  // namespace

namespace {

// Every second document goes on behind a part of the one before it.
std::vector<Branch> random_branches(const std::vector<int64_t>& starts, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Branch> branches;
    for (size_t document = 1; document < starts.size(); document += 2)
        branches.push_back(
            {document, document - 1,
             1 + static_cast<int64_t>(
                     random() % static_cast<unsigned>(starts[document] - starts[document - 1]))});
    return branches;
}

// The tokens of a document in their order, with those that a branch shares.
std::vector<std::vector<int64_t>> tokens_of_documents(const SequencePartition& partition) {
    const auto& starts = partition.document_starts();
    std::vector<std::vector<int64_t>> documents(starts.size());
    for (const Branch& branch : partition.branches())
        for (int64_t token = 0; token < branch.length; ++token)
            documents[branch.document].push_back(starts[branch.stem] + token);
    for (size_t document = 0; document < starts.size(); ++document)
        for (int64_t token = starts[document];
             token <
             (document + 1 < starts.size() ? starts[document + 1] : partition.filled_length());
             ++token)
            documents[document].push_back(token);
    return documents;
}

// The pairs of queries and keys in the plans of all ranks. Counts the plans with an exchange, of
// which no key is sent that no query of its receiver sees.
Pairs pairs_of(const std::vector<Plan>& plans, const SequencePartition& partition, int& exchanges) {
    const int64_t ring = partition.ring();
    Pairs seen;
    for (int64_t r = 0; r < ring; ++r) {
        const Plan& plan = plans[static_cast<size_t>(r)];
        const auto queries = held(partition.of_ring_rank(r));
        if (!plan.exchange) {
            for (int64_t step = 0; step < std::ssize(plan.steps); ++step)
                count_pairs(plan.steps[static_cast<size_t>(step)], queries,
                            held(partition.of_ring_rank((r + (ring - 1) * step) % ring)), seen);
            continue;
        }
        ++exchanges;
        const auto received = received_keys(plans, partition, r);
        count_pairs(plan.steps.at(0), queries, queries, seen);
        Pairs others;
        count_pairs(plan.steps.at(1), queries, received, others);
        std::set<int64_t> needed;
        for (const auto& [pair, times] : others) {
            needed.insert(pair.second);
            seen[pair] += times;
        }
        BOOST_TEST(needed.size() == received.size());
    }
    return seen;
}

void check_window(const SequencePartition& partition, int64_t window, int& exchanges) {
    std::vector<Plan> plans;
    for (int64_t r = 0; r < partition.ring(); ++r)
        plans.push_back(make_plan(partition, r, {.window = window}));
    Pairs seen = pairs_of(plans, partition, exchanges);
    const auto& starts = partition.document_starts();
    const auto documents = tokens_of_documents(partition);
    size_t expected = 0;
    bool all_once = true;
    for (size_t document = 0; document < documents.size(); ++document) {
        const auto& tokens = documents[document];
        for (size_t q = 0; q < tokens.size(); ++q) {
            if (tokens[q] < starts[document]) continue;  // of the stem
            const size_t last = static_cast<size_t>(window) - 1;
            for (size_t k = q > last ? q - last : 0; k <= q; ++k) {
                ++expected;
                all_once = all_once && seen[{tokens[q], tokens[k]}] == 1;
            }
        }
    }
    BOOST_TEST(all_once);
    BOOST_TEST(seen.size() == expected);
}

}  // namespace

// Every query meets the keys of its window once, wherever they are held.
BOOST_AUTO_TEST_CASE(tiles_of_a_window_are_its_mask) {
    int exchanges = 0;
    for (const auto& [length, ring, ulysses] : cases)
        for (unsigned seed = 0; seed < 8; ++seed) {
            const std::vector<int64_t> starts = random_starts(length, seed);
            const SequencePartition plain(length, starts, ring, ulysses);
            const SequencePartition branched(length, starts, ring, ulysses,
                                             random_branches(starts, seed));
            for (const int64_t window : {1, 2, 5, 17, 64, 1000}) {
                check_window(plain, window, exchanges);
                check_window(branched, window, exchanges);
            }
        }
    BOOST_TEST(exchanges > 100);
}

BOOST_AUTO_TEST_CASE(a_branch_goes_on_behind_its_stem) {
    const SequencePartition partition(12, {0, 7}, 2, 1, {{1, 0, 3}});
    BOOST_TEST(positions_in_documents(partition) ==
               (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 7}));
    BOOST_TEST(document_lengths(partition) ==
               (std::vector<int64_t>{7, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8}));
    double work = 0;
    for (int64_t rank = 0; rank < 2; ++rank) work += tile_work(make_plan(partition, rank));
    BOOST_TEST(work == 7 * 8 / 2 + 5 * 3 + 5 * 6 / 2);
    BOOST_TEST(partition.work().mean == work / 2);
    BOOST_CHECK_THROW(make_plan(partition, 0, {.through_state = true}), ringshard::Error);
}

BOOST_AUTO_TEST_CASE(a_narrow_window_sends_few_keys) {
    const SequencePartition partition(65536, {0}, 4, 1);
    int64_t most = 0;
    for (int64_t r = 0; r < 4; ++r) {
        const Plan plan = make_plan(partition, r, {.window = 1024});
        int64_t sent = 0;
        for (const int64_t count : plan.exchange->num_sent) sent += count;
        most = std::max(most, sent);
    }
    BOOST_TEST(most == 2 * 1023);  // of 3 x 16384 that go round a ring
}

BOOST_AUTO_TEST_CASE(a_window_counts_the_pairs_that_it_holds) {
    BOOST_TEST(visible_pairs(100, {}) == 5000);
    BOOST_TEST(visible_pairs(100, {.window = 100}) == 5000);
    BOOST_TEST(visible_pairs(100, {.window = 10}) == 950);
}

BOOST_AUTO_TEST_CASE(queries_and_keys_are_the_same_or_have_none_in_common) {
    const std::vector<int64_t> starts{0};
    BOOST_CHECK_THROW(make_tiles({{0, 4}}, {{2, 4}}, starts), ringshard::Error);
    BOOST_CHECK_THROW(make_tiles({{2, 4}}, {{0, 4}}, starts), ringshard::Error);
    BOOST_CHECK_THROW(make_tiles({{4, 2}, {0, 2}}, {{8, 2}}, starts), ringshard::Error);
    // The document in two parts on either side: only the later queries see anything.
    const std::vector<Tile> expected{{2, 0, 2, 4, ringshard::ops::every_key}};
    BOOST_TEST((make_tiles({{0, 2}, {6, 2}}, {{2, 4}}, starts) == expected));
}

namespace {

// Documents of a row, with the median and the spread that texts have.
std::vector<int64_t> log_normal_starts(int64_t length, double median, unsigned seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> draw(std::log(median), 1.2);
    std::vector<int64_t> starts;
    for (int64_t at = 0; at < length; at += std::max<int64_t>(2, std::llround(draw(random))))
        starts.push_back(at);
    return starts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(packed_rows_are_about_the_same_work_for_every_ring_rank) {
    constexpr int64_t length = 32768;
    constexpr unsigned num_rows = 200;
    for (const int64_t ring : {2, 4, 8}) {
        for (const double median : {100.0, 1000.0, 4000.0}) {
            double worst = 1;
            double sum = 0;
            int cut_by_documents = 0;
            for (unsigned seed = 0; seed < num_rows; ++seed) {
                const SequencePartition partition(length, log_normal_starts(length, median, seed),
                                                  ring, 1);
                const double ratio = partition.work().worst / partition.work().mean;
                worst = std::max(worst, ratio);
                sum += ratio;
                cut_by_documents += is_cut_by_documents(partition) ? 1 : 0;
            }
            BOOST_TEST_MESSAGE("ring of "
                               << ring << ", documents of " << median << " (median): " << num_rows
                               << " rows, " << cut_by_documents
                               << " cut by documents; work of the worst rank to the "
                                  "mean: "
                               << worst << " at most, " << sum / num_rows << " in the mean");
            BOOST_TEST(worst <= 1.15);
        }
    }
}

// Made once per batch: in the time of a few matrix products of one layer.
BOOST_AUTO_TEST_CASE(a_plan_of_many_documents_takes_no_time) {
    constexpr int64_t ring = 8;
    for (const double median : {50.0, 5.0}) {
        const auto starts = log_normal_starts(32768, median, 0);
        double best = 1;
        for (int run = 0; run < 5; ++run) {
            const auto begin = std::chrono::steady_clock::now();
            const SequencePartition partition(32768, starts, ring, 1);
            const Plan plan = make_plan(partition, 3);
            const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
            best = std::min(best, taken.count());
            BOOST_TEST(is_cut_by_documents(partition));
            BOOST_TEST(plan.steps.size() == static_cast<size_t>(ring));
        }
        BOOST_TEST_MESSAGE(starts.size() << " documents: " << best * 1e3 << " ms");
        BOOST_TEST(best < 0.1);
    }
}

// Every stretch knows the rows before it, every row the stretches that it stands before, and the
// links of a document go through its tokens in order.
BOOST_AUTO_TEST_CASE(chains_lead_through_documents_in_order) {
    const std::vector<std::vector<int64_t>> documents{{0}, {0, 37, 42, 102, 103}, {0, 1, 2, 90}};
    for (const std::vector<int64_t>& starts : documents)
        for (const int64_t ring : {1, 2, 3, 4}) {
            const SequencePartition partition(125, starts, ring, 1);
            std::vector<Chain> chains;
            for (int64_t rank = 0; rank < ring; ++rank)
                chains.push_back(make_chain(partition, rank));
            const int64_t slots = chains.front().slots;
            std::vector<int64_t> last(static_cast<size_t>(ring * slots * rows_before), -1);
            std::vector<int64_t> starts_of_slots(static_cast<size_t>(ring * slots), -1);
            for (int64_t rank = 0; rank < ring; ++rank) {
                const Chain& chain = chains[static_cast<size_t>(rank)];
                BOOST_TEST_REQUIRE(chain.slots == slots);
                for (size_t i = 0; i < chain.cut.size(); ++i) {
                    const auto& [begin, length] = chain.stretches[chain.cut[i]];
                    const auto slot = static_cast<size_t>(rank * slots) + i;
                    const std::vector<int64_t> tokens = held(partition.of_ring_rank(rank));
                    const auto token = [&](int64_t row) {
                        return tokens[static_cast<size_t>(row)];
                    };
                    starts_of_slots[slot] = token(begin);
                    for (int64_t row = std::max<int64_t>(0, length - rows_before); row < length;
                         ++row)
                        last[(slot + 1) * rows_before - static_cast<size_t>(length - row)] =
                            token(begin + row);
                }
            }
            const auto positions = positions_in_documents(partition);
            for (int64_t rank = 0; rank < ring; ++rank) {
                const Chain& chain = chains[static_cast<size_t>(rank)];
                const std::vector<int64_t> tokens = held(partition.of_ring_rank(rank));
                const auto token = [&](int64_t row) { return tokens[static_cast<size_t>(row)]; };
                size_t expected = 0;
                for (const auto& [begin, length] : chain.stretches)
                    expected += static_cast<size_t>(
                        std::min(positions[static_cast<size_t>(token(begin))], rows_before));
                BOOST_TEST(chain.before.size() == expected);
                for (const auto& [mine, of_slots] : chain.before) {
                    const auto& stretch = chain.stretches[static_cast<size_t>(mine / rows_before)];
                    BOOST_TEST(last[static_cast<size_t>(of_slots)] ==
                               token(stretch.begin) - rows_before + mine % rows_before);
                }
                for (const auto& [mine, of_slots] : chain.reached)
                    BOOST_TEST(token(mine) ==
                               starts_of_slots[static_cast<size_t>(of_slots / rows_before)] -
                                   rows_before + of_slots % rows_before);
                for (const auto& links : chain.documents)
                    for (size_t i = 1; i < links.size(); ++i)
                        BOOST_TEST(starts_of_slots[static_cast<size_t>(links[i - 1].slot)] <
                                   starts_of_slots[static_cast<size_t>(links[i].slot)]);
            }
        }
}
