#include "diagnosis.hpp"

#include <boost/test/unit_test.hpp>

#include "limits.hpp"
#include "watchers.hpp"

using namespace ringshard;
using namespace ringshard::watch;

namespace {

// A group on which `begun` operations have begun and one may be waited for, since 61 s.
comm::GroupLogState group(const char* name, int64_t begun, int64_t awaited = 0,
                          bool by_main = true) {
    comm::GroupLogState state{.name = name, .begun = begun, .ended = begun, .awaited = awaited};
    if (awaited == 0) return state;
    state.ended = awaited - 1;
    state.is_main_waiting = by_main;
    state.last.push_back({.number = awaited, .what = "all-gather", .bytes = 4096, .began = 61});
    return state;
}

std::vector<RankView> ranks(std::vector<std::vector<comm::GroupLogState>> groups) {
    std::vector<RankView> views;
    for (size_t rank = 0; rank < groups.size(); ++rank)
        views.push_back({.host = rank < 2 ? "hn1" : "hn2",
                         .was_heard = true,
                         .heartbeat = {.rank = static_cast<int64_t>(rank),
                                       .step = 7,
                                       .seconds = 62,
                                       .doing = "forward and backward",
                                       .groups = std::move(groups[rank])}});
    return views;
}

void expect(const std::string& found, std::initializer_list<const char*> words) {
    for (const char* word : words)
        BOOST_TEST(found.find(word) != std::string::npos, "'" << word << "' in: " << found);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_one_who_has_not_come_is_named) {
    const auto views = ranks({{group("zero", 12, 12)},
                              {group("zero", 12, 12)},
                              {group("zero", 12, 12)},
                              {group("zero", 11)}});
    expect(diagnose(views),
           {"rank 3 on hn2 has not reached all-gather 12 (4096 bytes) of group zero",
            "in which ranks 0, 1, 2 waited for 61 s", "it is at: step 7, forward and backward",
            "for 62 s"});
}

BOOST_AUTO_TEST_CASE(a_chain_leads_to_its_end) {
    // 0 waits for 1 in the ring, 1 for 2 in the shard, and 2 computes.
    const auto views = ranks({{group("ring", 5, 5), group("shard", 1)},
                              {group("ring", 4), group("shard", 3, 3)},
                              {group("shard", 2)}});
    const std::string found = diagnose(views);
    expect(found, {"rank 2 on hn2 has not reached all-gather 3", "of group shard"});
    BOOST_TEST(found.find("rank 1 on") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(ranks_that_wait_for_each_other_are_all_named) {
    const auto views =
        ranks({{group("ring", 5, 5), group("shard", 2)}, {group("ring", 4), group("shard", 3, 3)}});
    expect(diagnose(views), {"rank 0 on hn1, rank 1 on hn1 have not reached"});
}

BOOST_AUTO_TEST_CASE(silence_comes_first) {
    auto views = ranks({{group("zero", 12, 12)}, {group("zero", 12, 12)}, {group("zero", 11)}});
    views[2].is_silent = true;
    views[2].silent_for = 64;
    expect(diagnose(views),
           {"rank 2 on hn2: no heartbeat for 64 s", "has not reached all-gather 12",
            "in which ranks 0, 1 waited", "last heartbeat of rank 2: step 7"});
}

BOOST_AUTO_TEST_CASE(what_runs_beside_the_training_counts_only_where_nothing_else_waits) {
    // Rank 1's thread of a save waits for rank 0's; its main thread hangs, and rank 0 misses it.
    const auto views = ranks({{group("zero", 12, 12), group("save", 3)},
                              {group("zero", 11), group("save", 4, 4, false)}});
    expect(diagnose(views), {"rank 1 on hn1 has not reached all-gather 12"});
    const auto save_alone = ranks({{group("save", 3)}, {group("save", 4, 4, false)}});
    expect(diagnose(save_alone), {"rank 0 on hn1 has not reached all-gather 4", "group save"});
}

BOOST_AUTO_TEST_CASE(groups_of_one_name_are_told_apart) {
    auto others = group("shard", 4);
    others.leader = 2;
    const auto views = ranks({{group("shard", 9, 9)}, {group("shard", 8)}, {others}});
    const std::string found = diagnose(views);
    expect(found, {"rank 1 on hn1 has not reached"});
    BOOST_TEST(found.find("rank 2") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(all_have_come) {
    const auto views = ranks({{group("zero", 12, 12)}, {group("zero", 12, 12)}});
    expect(diagnose(views),
           {"all ranks of the group have reached all-gather 12", "the network between them"});
}

BOOST_AUTO_TEST_CASE(alone) {
    auto views = ranks({{}});
    views[0].heartbeat.idle = 601;
    views[0].heartbeat.limit = 600;
    const std::string found = diagnose(views);
    expect(found, {"rank 0 on hn1 has made no progress for 601 s at: step 7, forward and backward",
                   "no rank waits for another", "the limit is 600 s (hang_timeout_s"});
    BOOST_TEST(found.find("reached") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_beat_survives_its_way) {
    Heartbeat heartbeat{.rank = 3,
                        .step = 9,
                        .idle = 3.5,
                        .limit = 60,
                        .seconds = 1.5,
                        .doing = "waiting for rows"};
    heartbeat.groups = {group("save of a host", 12, 11), group("zero", 4)};
    const auto read = read_heartbeat(to_text(heartbeat));
    BOOST_TEST_REQUIRE(read.has_value());
    BOOST_TEST(to_text(*read) == to_text(heartbeat));
    BOOST_TEST(read->groups[0].last.front().what == "all-gather");
    BOOST_TEST(read->groups[1].last.empty());
}

BOOST_AUTO_TEST_CASE(letters_that_are_no_beats) {
    const std::string good = to_text({.rank = 1, .doing = "x", .groups = {group("zero", 3, 3)}});
    for (size_t length = 0; length < good.size(); ++length)
        static_cast<void>(read_heartbeat(good.substr(0, length)));
    for (const auto* bad :
         {"", "\n", "a\tb\tc\td\te\tf\tg", "1\t2\t0\t0\t0\t1.5", "1\t2\t0\t0\t0\t1.5\tx\n\t"})
        BOOST_TEST(!read_heartbeat(bad).has_value(), bad);
}

BOOST_AUTO_TEST_CASE(watchers_lie_on_different_hosts) {
    using Ranks = std::vector<size_t>;
    BOOST_TEST((choose_watchers({"a", "a", "b", "b", "c", "d"}) == Ranks{0, 2, 4}));
    BOOST_TEST((choose_watchers({"a", "a", "a", "a"}) == Ranks{0, 1, 2}));
    BOOST_TEST((choose_watchers({"a", "a", "b"}) == Ranks{0, 2, 1}));
    BOOST_TEST((choose_watchers({"a"}) == Ranks{0}));
}

BOOST_AUTO_TEST_CASE(how_long_work_may_take) {
    Limits limits(std::nullopt, {.shortest_limit = 60});
    BOOST_TEST(limits.of(Work::preparation) == Limits::none);
    BOOST_TEST(limits.of(Work::step) == 3600);  // nobody knows yet
    limits.took(Work::step, 2, 0);
    BOOST_TEST(limits.of(Work::step) == 60);
    limits.took(Work::step, 30, 0);
    BOOST_TEST(limits.of(Work::step) == 300);
    limits.took(Work::step, 10, 0);
    BOOST_TEST(limits.of(Work::step) == 280);
    BOOST_TEST(limits.of(Work::evaluation) == 3600);
    Limits wished(5.0, {.shortest_limit = 60});
    BOOST_TEST(wished.of(Work::step) == 5);
    BOOST_TEST(wished.of(Work::other) == 3600);
    BOOST_TEST(wished.of_silence() == 5);
    const Limits never(0.0, {.shortest_limit = 60});
    BOOST_TEST(never.of(Work::step) == Limits::none);
    BOOST_TEST(never.of(Work::other) == Limits::none);
}

BOOST_AUTO_TEST_CASE(a_long_row_may_take_as_much_longer_as_it_has_more_operations) {
    Limits limits(std::nullopt, {});
    for (const Work work : {Work::step, Work::evaluation}) {
        for (int step = 0; step < 60; ++step) limits.took(work, 0.5, 1e12);
        BOOST_TEST(limits.of(work, 1e12) == 600);
        BOOST_TEST(limits.of(work, 1e15) == 10 * 500, boost::test_tools::tolerance(1e-9));
        // One that was long does not make the others' time: most of it was another amount of work.
        limits.took(work, 400, 1e15);
        BOOST_TEST(limits.of(work, 2e15) == 10 * 800, boost::test_tools::tolerance(0.05));
    }
    // What takes long whatever the operations are is expected again.
    Limits slow_disk(std::nullopt, {});
    slow_disk.took(Work::step, 900, 1e15);
    BOOST_TEST(slow_disk.of(Work::step, 1e9) == 9000);
    Limits wished(5.0, {});
    wished.took(Work::step, 1, 1e12);
    BOOST_TEST(wished.of(Work::step, 1e15) == 5);
}
