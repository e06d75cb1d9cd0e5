#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "log_history.hpp"
#include "mpi_test.hpp"
#include "ringshard/train/metrics.hpp"

using namespace ringshard;
using namespace ringshard::train;

BOOST_AUTO_TEST_CASE(the_largest_numbers_of_all_ranks_are_found_at_once) {
    const comm::Group& world = test::world();
    const int last = world.size() - 1;
    MemoryByKind mine;
    mine.weights = 100 + world.rank();
    mine.save_copy = 100 - world.rank();
    mine.process_peak = (int64_t{1} << 40) + (world.rank() == last ? 4097 : world.rank());
    mine.host = world.rank() == 0 ? 7 : 0;
    Usage usage;
    const int64_t before = world.log().state().begun;
    usage.take_maxima(mine, world);
    BOOST_TEST(world.log().state().begun - before == 1);
    BOOST_TEST(usage.memory.weights == 100 + last);
    BOOST_TEST(usage.memory.save_copy == 100);
    BOOST_TEST(usage.memory.host == 7);
    BOOST_TEST(usage.memory.gathered == 0);
    BOOST_TEST(usage.peak_memory_bytes == (int64_t{1} << 40) + 4097);
    BOOST_TEST(usage.peak_memory_rank == last);
    mine.process_peak = 5000;  // the same everywhere: the first rank
    usage.take_maxima(mine, world);
    BOOST_TEST(usage.peak_memory_rank == 0);
}

namespace {

nlohmann::json read(const LogHistory& history) {
    std::string text;
    for (const auto& block : history.view().blocks) text += *block;
    return nlohmann::json::parse("[" + text + "]");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_history_holds_the_names_that_trl_logs_and_shares_its_blocks) {
    LogHistory history;
    BOOST_TEST(history.view().blocks.empty());
    const double nan = std::numeric_limits<double>::quiet_NaN();
    history.add({{"step", int64_t{1}},
                 {"loss", 2.5},
                 {"mfu", 0.5},
                 {"total_flos", 1e9},
                 {"num_tokens", int64_t{64}},
                 {"epoch", 0.5}});
    history.add({{"step", int64_t{1}}, {"save_step", int64_t{1}}, {"save_stall_s", 0.5}});
    history.add({{"step", int64_t{2}}, {"loss", nan}, {"grad_norm", 1.0}});
    history.add({{"step", int64_t{2}}, {"eval_loss", 3.0}});
    history.add({{"mine", int64_t{2}}});
    BOOST_TEST(!history.has_end_at(2));
    history.add({{"step", int64_t{2}}, {"train_runtime", 9.0}, {"total_flos", 2e9}});
    BOOST_TEST(history.has_end_at(2));
    BOOST_TEST(!history.has_end_at(3));
    BOOST_TEST(read(history).dump() ==
               R"([{"epoch":0.5,"loss":2.5,"num_tokens":64,"step":1},{"grad_norm":1.0,"step":2},)"
               R"({"eval_loss":3.0,"step":2},{"step":2,"total_flos":2000000000.0,)"
               R"("train_runtime":9.0}])");
    BOOST_TEST(history.view().epoch == 0.5);
    BOOST_TEST(history.view().num_tokens == 64);
    BOOST_TEST(history.view().total_flos == 2e9);

    for (int64_t step = 3; step < 10'000; ++step)
        history.add({{"step", step}, {"loss", 1.0 / static_cast<double>(step)}});
    const LogHistory::View before = history.view();
    history.add({{"step", int64_t{10'000}}, {"loss", 0.0}});
    const LogHistory::View after = history.view();
    BOOST_TEST_REQUIRE(before.blocks.size() > 3U);
    for (size_t i = 0; i + 1 < before.blocks.size(); ++i)
        BOOST_TEST((before.blocks[i] == after.blocks[i]));  // the same memory
    BOOST_TEST(read(history).size() == 10'002U);
    BOOST_TEST(read(history).back()["step"] == 10'000);
}
