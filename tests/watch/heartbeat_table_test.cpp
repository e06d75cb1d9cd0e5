#include "heartbeat_table.hpp"

#include <boost/test/unit_test.hpp>

#include "limits.hpp"

using namespace ringshard;
using namespace ringshard::watch;

namespace {

constexpr double silence = 60;

// Of a rank that waits for an operation since `seconds`; 0: it does not wait.
Heartbeat heartbeat(int64_t rank, double seconds = 0) {
    Heartbeat result{.rank = rank, .step = 7, .doing = "forward and backward"};
    comm::GroupLogState group{.name = "zero", .begun = 12, .ended = 11};
    if (seconds > 0) group.last.push_back({.number = 12, .what = "all-gather", .began = seconds});
    result.groups.push_back(std::move(group));
    return result;
}

Heartbeat late(int64_t rank) {
    Heartbeat result = heartbeat(rank);
    result.idle = 11;
    result.limit = 10;
    return result;
}

Heartbeat last(int64_t rank) {
    Heartbeat result = heartbeat(rank);
    result.is_last = true;
    return result;
}

HeartbeatTable table(double limit = silence) {
    return HeartbeatTable({"hn1", "hn2", "hn3"}, limit);
}

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_was_heard_yet) { BOOST_TEST(!table().is_stalled(1000)); }

BOOST_AUTO_TEST_CASE(one_who_says_it_is_late) {
    HeartbeatTable all = table();
    all.record(late(1), 10);
    BOOST_TEST(all.is_stalled(11));
    all.record(heartbeat(1), 12);
    BOOST_TEST(!all.is_stalled(13));
}

BOOST_AUTO_TEST_CASE(one_who_is_late_may_wait_for_one_that_makes_progress) {
    HeartbeatTable all = table();
    all.record(late(1), 10);
    all.record(heartbeat(0), 10);
    BOOST_TEST(!all.is_stalled(11));
    all.record(late(1), 20);
    BOOST_TEST(!all.is_stalled(20));  // 10 s without progress are no more than the limit
    BOOST_TEST(all.is_stalled(21));
    all.record(last(0), 22);  // has ended, and will make none
    all.record(late(1), 22);
    BOOST_TEST(all.is_stalled(22));
}

BOOST_AUTO_TEST_CASE(silence_is_trouble_where_somebody_waits_as_long) {
    HeartbeatTable all = table();
    all.record(heartbeat(0), 0);
    all.record(heartbeat(1), 100);
    BOOST_TEST(!all.is_stalled(100));  // heartbeats may be lost
    BOOST_TEST(all.views()[0].is_silent);
    BOOST_TEST(all.views()[0].silent_for == 100);
    all.record(heartbeat(1, silence - 1), 100);
    BOOST_TEST(!all.is_stalled(100));
    all.record(heartbeat(1, silence + 1), 100);
    BOOST_TEST(all.is_stalled(100));
    all.record(heartbeat(0), 101);
    BOOST_TEST(!all.is_stalled(101));
}

BOOST_AUTO_TEST_CASE(one_that_ended_may_be_silent) {
    HeartbeatTable all = table();
    all.record(last(0), 0);
    all.record(heartbeat(1, silence + 1), 100);
    BOOST_TEST(!all.is_stalled(100));
}

BOOST_AUTO_TEST_CASE(without_a_limit_nobody_is_silent) {
    HeartbeatTable all = table(Limits::none);
    all.record(heartbeat(0), 0);
    all.record(heartbeat(1, 1e6), 1e6);
    BOOST_TEST(!all.is_stalled(1e6));
}

BOOST_AUTO_TEST_CASE(after_a_stop_of_the_process_all_begin_anew) {
    HeartbeatTable all = table();
    all.record(late(0), 0);
    all.record(heartbeat(1, silence + 1), 0);
    all.reset_after_suspend(1000);
    BOOST_TEST(!all.is_stalled(1001));
    BOOST_TEST(!all.is_stalled(1000 + silence + 1));  // rank 1, who waits, is silent too
    all.record(heartbeat(1, silence + 1), 1000 + silence + 1);
    BOOST_TEST(all.is_stalled(1000 + silence + 1));
}

BOOST_AUTO_TEST_CASE(a_beat_of_a_rank_that_there_is_not) {
    HeartbeatTable all = table();
    for (const int64_t rank : {-1, 3}) all.record(late(rank), 0);
    BOOST_TEST(!all.is_stalled(1));
}
