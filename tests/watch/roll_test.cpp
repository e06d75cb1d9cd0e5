#include "roll.hpp"

#include <boost/test/unit_test.hpp>

#include "limits.hpp"

using namespace ringshard;
using namespace ringshard::watch;

namespace {

constexpr double silence = 60;

// Of a rank that waits for an operation since `seconds`; 0: it does not wait.
Beat beat(int64_t rank, double seconds = 0) {
    Beat beat{.rank = rank, .step = 7, .doing = "forward and backward"};
    comm::PageState page{.name = "zero", .begun = 12, .ended = 11};
    if (seconds > 0) page.last.push_back({.number = 12, .what = "all-gather", .began = seconds});
    beat.pages.push_back(std::move(page));
    return beat;
}

Beat late(int64_t rank) {
    Beat result = beat(rank);
    result.idle = 11;
    result.limit = 10;
    return result;
}

Beat last(int64_t rank) {
    Beat result = beat(rank);
    result.is_last = true;
    return result;
}

Roll roll(double limit = silence) { return Roll({"hn1", "hn2", "hn3"}, limit); }

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_was_heard_yet) { BOOST_TEST(!roll().has_trouble(1000)); }

BOOST_AUTO_TEST_CASE(one_who_says_it_is_late) {
    Roll all = roll();
    all.take(late(1), 10);
    BOOST_TEST(all.has_trouble(11));
    all.take(beat(1), 12);
    BOOST_TEST(!all.has_trouble(13));
}

BOOST_AUTO_TEST_CASE(one_who_is_late_may_wait_for_one_that_makes_progress) {
    Roll all = roll();
    all.take(late(1), 10);
    all.take(beat(0), 10);
    BOOST_TEST(!all.has_trouble(11));
    all.take(late(1), 20);
    BOOST_TEST(!all.has_trouble(20));  // 10 s without progress are no more than the limit
    BOOST_TEST(all.has_trouble(21));
    all.take(last(0), 22);  // has ended, and will make none
    all.take(late(1), 22);
    BOOST_TEST(all.has_trouble(22));
}

BOOST_AUTO_TEST_CASE(silence_is_trouble_where_somebody_waits_as_long) {
    Roll all = roll();
    all.take(beat(0), 0);
    all.take(beat(1), 100);
    BOOST_TEST(!all.has_trouble(100));  // letters may be lost
    BOOST_TEST(all.views()[0].is_silent);
    BOOST_TEST(all.views()[0].silent_for == 100);
    all.take(beat(1, silence - 1), 100);
    BOOST_TEST(!all.has_trouble(100));
    all.take(beat(1, silence + 1), 100);
    BOOST_TEST(all.has_trouble(100));
    all.take(beat(0), 101);
    BOOST_TEST(!all.has_trouble(101));
}

BOOST_AUTO_TEST_CASE(one_that_ended_may_be_silent) {
    Roll all = roll();
    all.take(last(0), 0);
    all.take(beat(1, silence + 1), 100);
    BOOST_TEST(!all.has_trouble(100));
}

BOOST_AUTO_TEST_CASE(without_a_limit_nobody_is_silent) {
    Roll all = roll(Limits::none);
    all.take(beat(0), 0);
    all.take(beat(1, 1e6), 1e6);
    BOOST_TEST(!all.has_trouble(1e6));
}

BOOST_AUTO_TEST_CASE(after_a_stop_of_the_process_all_begin_anew) {
    Roll all = roll();
    all.take(late(0), 0);
    all.take(beat(1, silence + 1), 0);
    all.forgive(1000);
    BOOST_TEST(!all.has_trouble(1001));
    BOOST_TEST(!all.has_trouble(1000 + silence + 1));  // rank 1, who waits, is silent too
    all.take(beat(1, silence + 1), 1000 + silence + 1);
    BOOST_TEST(all.has_trouble(1000 + silence + 1));
}

BOOST_AUTO_TEST_CASE(a_beat_of_a_rank_that_there_is_not) {
    Roll all = roll();
    for (const int64_t rank : {-1, 3}) all.take(late(rank), 0);
    BOOST_TEST(!all.has_trouble(1));
}
