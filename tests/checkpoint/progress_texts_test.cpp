#include "progress_texts.hpp"

#include <boost/test/unit_test.hpp>

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

const std::filesystem::path file = "checkpoint-7/state.h5";

StateFile state_of(const Progress& progress) {
    return {.datasets = {}, .numbers = numbers_of(progress), .texts = texts_of(progress)};
}

Progress read(const StateFile& state) {
    auto progress = read_progress(state, file);
    BOOST_REQUIRE(static_cast<bool>(progress));
    return progress.value();
}

void check_refused(const StateFile& state, const std::string& part) {
    const auto progress = read_progress(state, file);
    BOOST_REQUIRE(!progress);
    BOOST_TEST(progress.failure().message.find(part) != std::string::npos,
               progress.failure().message);
}

Progress some_progress() {
    return {.step = 7,
            .sums = RunSums{10.5, 6, 1e12},
            .learners = {{.data = {1, 2}, .num_tokens = 30, .sums = RunSums{4.25, 3, 5e11}},
                         {.data = {0, 8},
                          .num_tokens = 12,
                          .last_step = 5,
                          .sums = RunSums{},
                          .plateau = optim::PlateauState{0.5, std::nullopt, 2, 1}}}};
}

// The numbers of format 2, of the learner that takes most steps.
std::map<std::string, int64_t> earlier_numbers() {
    return {{"format_version", 2}, {"step", 7},        {"epoch", 1},
            {"samples_done", 2},   {"num_tokens", 42}, {"attempt", 1}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_position_is_read_as_it_was_written) {
    const Progress there = some_progress();
    const Progress back = read(state_of(there));
    BOOST_TEST(back.step == 7);
    BOOST_TEST(back.sums->loss == 10.5);
    BOOST_TEST(back.sums->num_losses == 6);
    BOOST_TEST(back.num_tokens() == 42);
    BOOST_REQUIRE(back.learners.size() == 2);
    for (size_t learner = 0; learner < 2; ++learner) {
        const Progress::OfLearner& ours = back.learners[learner];
        const Progress::OfLearner& theirs = there.learners[learner];
        BOOST_TEST(ours.data.epoch == theirs.data.epoch);
        BOOST_TEST(ours.data.samples_done == theirs.data.samples_done);
        BOOST_TEST(ours.num_tokens == theirs.num_tokens);
        BOOST_TEST((ours.last_step == theirs.last_step));
        BOOST_TEST(ours.sums->operations == theirs.sums->operations);
        BOOST_TEST(ours.plateau.has_value() == theirs.plateau.has_value());
    }
    BOOST_TEST(back.learners[1].plateau->rate == 0.5);
    BOOST_TEST(back.learners[1].plateau->bad_evaluations == 2);
}

BOOST_AUTO_TEST_CASE(format_2_has_one_learner_in_numbers) {
    StateFile state{.datasets = {}, .numbers = earlier_numbers(), .texts = {}};
    state.texts["run_sums"] = R"({"loss": 10.5, "num_losses": 6, "operations": 1e12})";
    state.texts["plateau"] = R"({"rate": 0.5, "best": 2.5, "bad_evaluations": 2, "cooldown": 0})";
    const Progress progress = read(state);
    BOOST_REQUIRE(progress.learners.size() == 1);
    const Progress::OfLearner& only = progress.learners.front();
    BOOST_TEST(only.data.epoch == 1);
    BOOST_TEST(only.data.samples_done == 2);
    BOOST_TEST(only.num_tokens == 42);
    BOOST_TEST(only.sums->loss == 10.5);
    BOOST_TEST(only.plateau->best.value() == 2.5);
    state.texts["plateau"] = R"({"rate": 0.5})";
    check_refused(state, "no state of a learning rate");
    state.texts.clear();
    BOOST_TEST(!read(state).sums.has_value());
    state.numbers.erase("samples_done");
    check_refused(state, "has no whole number samples_done");
}

BOOST_AUTO_TEST_CASE(format_2_has_several_learners_in_a_text) {
    StateFile state{.datasets = {}, .numbers = earlier_numbers(), .texts = {}};
    state.texts["adapter_places"] =
        R"([{"epoch": 1, "samples_done": 2, "num_tokens": 30},
            {"epoch": 0, "samples_done": 8, "num_tokens": 12, "last_step": 5,
             "sums": {"loss": 4.25, "num_losses": 3, "operations": 5}}])";
    const Progress progress = read(state);
    BOOST_REQUIRE(progress.learners.size() == 2);
    BOOST_TEST(progress.num_tokens() == 42);
    BOOST_TEST(!progress.learners[0].sums.has_value());
    BOOST_TEST(progress.learners[1].last_step.value() == 5);
    BOOST_TEST(progress.learners[1].sums->loss == 4.25);
}

BOOST_AUTO_TEST_CASE(damaged_positions_are_named) {
    const StateFile whole = state_of(some_progress());
    const auto with = [&](const char* learners) {
        StateFile state = whole;
        state.texts["learners"] = learners;
        return state;
    };
    check_refused(with("[]"), "text learners is no list");
    check_refused(with("[3]"), "text learners has no epoch");
    check_refused(with(R"([{"epoch": 0, "samples_done": -1}])"), "has no samples_done");
    check_refused(with(R"([{"epoch": 0, "samples_done": 1, "num_tokens": 2, "last_step": 0}])"),
                  "last_step is no step");
    check_refused(with(R"([{"epoch": 0, "samples_done": 1, "num_tokens": 2, "plateau": {}}])"),
                  "no state of a learning rate");
    StateFile of_tomorrow = whole;
    of_tomorrow.numbers["format_version"] = 4;
    check_refused(of_tomorrow, "is of format version 4, and this program reads 2 and 3");
    of_tomorrow.numbers.erase("step");
    check_refused(of_tomorrow, "has no whole number step");
}
