// sum_over() adds up every number of a step under its own name.
#include "step_sums.hpp"

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"

using namespace ringshard;

BOOST_AUTO_TEST_CASE(every_number_is_summed_under_its_name) {
    const comm::Group& world = test::world();
    const auto ranks = static_cast<double>(world.size());
    train::StepSums mine{.learners = {{{1, 2, 3}, 4}, {{15, 16, 17}, 18}},
                         .aux_loss = 12,
                         .expert_choices = {13, 14},
                         .flags = {.save_file = 5,
                                   .stop_file = 6,
                                   .warning_signal = 7,
                                   .end_signal = 8,
                                   .time_limit = 9,
                                   .newer_attempt = 10,
                                   .finished_save = 11},
                         .ranks = std::vector<train::RankTimes>(static_cast<size_t>(world.size()))};
    mine.ranks[static_cast<size_t>(world.rank())] = {1.0 + world.rank(), 20, 30};
    const train::StepSums sum = train::sum_over(world, mine);
    for (size_t learner = 0; learner < 2; ++learner) {
        const double first = learner == 0 ? 1 : 15;
        BOOST_TEST(sum.learners[learner].loss() == first * ranks);
        BOOST_TEST(sum.learners[learner].entropy() == (first + 1) * ranks);
        BOOST_TEST(sum.learners[learner].correct() == (first + 2) * ranks);
        BOOST_TEST(sum.learners[learner].gradient_squares == (first + 3) * ranks);
    }
    BOOST_TEST(sum.aux_loss == 12 * ranks);
    BOOST_TEST(sum.expert_choices == (std::vector<double>{13 * ranks, 14 * ranks}),
               boost::test_tools::per_element());
    BOOST_TEST(sum.flags.save_file == 5 * ranks);
    BOOST_TEST(sum.flags.stop_file == 6 * ranks);
    BOOST_TEST(sum.flags.warning_signal == 7 * ranks);
    BOOST_TEST(sum.flags.end_signal == 8 * ranks);
    BOOST_TEST(sum.flags.time_limit == 9 * ranks);
    BOOST_TEST(sum.flags.newer_attempt == 10 * ranks);
    BOOST_TEST(sum.flags.finished_save == 11 * ranks);
    BOOST_TEST_REQUIRE(std::ssize(sum.ranks) == world.size());
    for (size_t rank = 0; rank < sum.ranks.size(); ++rank) {
        BOOST_TEST(sum.ranks[rank].compute == 1.0 + static_cast<double>(rank));
        BOOST_TEST(sum.ranks[rank].comm_wait == 20);
        BOOST_TEST(sum.ranks[rank].data_wait == 30);
    }
}
