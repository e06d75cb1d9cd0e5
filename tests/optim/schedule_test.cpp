// Every learning rate of every schedule against transformers' own.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ringshard/config/resolve.hpp"
#include "ringshard/optim/plateau.hpp"
#include "ringshard/optim/schedule.hpp"
#include "unpacked.hpp"

using namespace ringshard;
using nlohmann::json;

namespace {

const config::OptionTable table;

config::Resolution resolve(const json& golden, std::vector<std::string> flags = {}) {
    const auto text = [&](const char* name) {
        const json& value = golden[name];
        return value.is_string() ? value.get<std::string>() : value.dump();
    };
    for (const auto* name :
         {"lr_scheduler_type", "warmup_steps", "learning_rate", "lr_scheduler_kwargs"}) {
        flags.push_back(std::string("--") + name);
        flags.push_back(text(name));
    }
    return config::resolve(table, flags, Environment());
}

// What is wrong with these settings of a schedule, or nothing.
std::string problem_of(const std::string& schedule, const std::string& kwargs) {
    const config::Resolution resolution = config::resolve(
        table, {"--lr_scheduler_type", schedule, "--lr_scheduler_kwargs", kwargs}, Environment());
    return resolution.problems.empty() ? "" : resolution.problems.front().message;
}

bool has(const std::string& message, const std::string& words) {
    BOOST_TEST_INFO_SCOPE(message);
    return message.find(words) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rates_are_those_of_transformers) {
    std::ifstream file(GOLDENS);
    for (const json& golden : json::parse(file)) {
        BOOST_TEST_INFO_SCOPE(golden["lr_scheduler_type"].dump() << golden["lr_scheduler_kwargs"]);
        const config::Resolution resolution = resolve(golden);
        BOOST_TEST_REQUIRE(resolution.problems.empty());
        const optim::Schedule schedule(resolution.settings.values.training,
                                       golden["max_steps"].get<int64_t>());
        for (size_t step = 0; step < golden["lr"].size(); ++step) {
            BOOST_TEST_INFO_SCOPE("step " << step);
            const double theirs = golden["lr"][step];
            const double ours = schedule.learning_rate(static_cast<int64_t>(step));
            BOOST_TEST(std::abs(ours - theirs) <= 1e-12 * std::abs(theirs));
        }
    }
}

// A rate that goes on from the state of another one is the same.
BOOST_AUTO_TEST_CASE(rates_that_follow_evaluations_are_those_of_torch) {
    const json goldens = json::parse(test::unpacked(PLATEAU_GOLDENS));
    BOOST_TEST(goldens.size() == 12U);
    for (json golden : goldens) {
        BOOST_TEST_INFO_SCOPE(golden["lr_scheduler_kwargs"]);
        golden["lr_scheduler_type"] = "reduce_lr_on_plateau";
        golden["warmup_steps"] = 0;
        const config::Resolution resolution = resolve(golden, {"--eval_strategy", "steps"});
        BOOST_TEST_REQUIRE(resolution.problems.empty());
        const config::TrainingSettings& training = resolution.settings.values.training;
        const auto settings = config::read_schedule_settings(training).value().plateau;
        optim::PlateauState state{.rate = training.learning_rate};
        for (size_t i = 0; i < golden["lr"].size(); ++i) {
            BOOST_TEST_INFO_SCOPE("evaluation " << i);
            const json& metric = golden["metrics"][i];
            optim::Plateau plateau(settings, training.learning_rate);
            plateau.go_to(state);
            plateau.take(metric.is_null() ? std::nan("") : metric.get<double>());
            state = plateau.state();
            BOOST_TEST(state.rate == golden["lr"][i].get<double>());
            BOOST_TEST(state.best.value_or(0) == golden["best"][i].get<double>());
        }
    }
}

BOOST_AUTO_TEST_CASE(rates_that_follow_evaluations_are_checked) {
    const auto says = [](std::vector<std::string> flags) {
        flags.insert(flags.begin(), {"--lr_scheduler_type", "reduce_lr_on_plateau"});
        const config::Resolution resolution = config::resolve(table, flags, Environment());
        return resolution.problems.empty() ? "" : resolution.problems.front().message;
    };
    const auto of_kwargs = [&](const char* kwargs) {
        return says({"--eval_strategy", "steps", "--lr_scheduler_kwargs", kwargs});
    };
    BOOST_TEST(has(says({}), "give eval_strategy steps or epoch"));
    BOOST_TEST(says({"--eval_strategy", "epoch"}) == "");
    BOOST_TEST(has(says({"--eval_strategy", "epoch", "--warmup_steps", "3"}), "has no warm-up"));
    BOOST_TEST(has(of_kwargs(R"({"factor": 1})"), "factor = 1: must be below 1"));
    BOOST_TEST(has(of_kwargs(R"({"mode": "least"})"), "must be min or max"));
    BOOST_TEST(has(of_kwargs(R"({"threshold_mode": 1})"), "must be rel or abs"));
    BOOST_TEST(has(of_kwargs(R"({"patience": -1})"), "patience = -1: must be a whole number"));
    BOOST_TEST(has(of_kwargs(R"({"min_lr": [0.1]})"), "must be a number"));
    BOOST_TEST(has(of_kwargs(R"({"verbose": true})"), "it takes mode, factor"));
}

// Given as the scheduler of a DeepSpeed file, against the rates with which DeepSpeed took its
// steps.
BOOST_AUTO_TEST_CASE(rates_are_those_of_deepspeed) {
    std::ifstream file(DEEPSPEED_GOLDENS);
    const json goldens = json::parse(file);
    BOOST_TEST(goldens.size() == 14U);
    for (const json& golden : goldens) {
        BOOST_TEST_INFO_SCOPE(golden["scheduler"].dump());
        const json deepspeed{
            {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", golden["learning_rate"]}}}}},
            {"scheduler", golden["scheduler"]}};
        const config::Resolution resolution =
            config::resolve(table, {"--deepspeed", deepspeed.dump()}, Environment());
        BOOST_TEST_REQUIRE(resolution.problems.empty());
        const optim::Schedule schedule(resolution.settings.values.training,
                                       golden["num_steps"].get<int64_t>());
        BOOST_TEST(golden["lr"].size() == golden["num_steps"].get<size_t>());
        for (size_t step = 0; step < golden["lr"].size(); ++step) {
            BOOST_TEST_INFO_SCOPE("step " << step);
            const double theirs = golden["lr"][step];
            const double ours = schedule.learning_rate(static_cast<int64_t>(step));
            BOOST_TEST(std::abs(ours - theirs) <= 1e-12 * std::abs(theirs));
        }
    }
}

// Against the sums of axolotl's cosine with lr_quadratic_warmup.
BOOST_AUTO_TEST_CASE(a_warmup_may_be_quadratic) {
    const config::Resolution resolution = config::resolve(
        table,
        {"--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs",
         R"({"warmup_type": "quadratic"})", "--warmup_steps", "4", "--learning_rate", "0.5"},
        Environment());
    BOOST_TEST_REQUIRE(resolution.problems.empty());
    const optim::Schedule schedule(resolution.settings.values.training, 12);
    for (int step = 0; step < 12; ++step) {
        BOOST_TEST_INFO_SCOPE("step " << step);
        const double theirs =
            step < 4 ? std::pow(step / 4.0, 2)
                     : std::max(0.0, 0.5 * (1.0 + std::cos(std::acos(-1.0) * (step - 4) / 8.0)));
        BOOST_TEST(std::abs(schedule.learning_rate(step) - 0.5 * theirs) <= 1e-15);
    }
    BOOST_TEST(has(problem_of("cosine", R"({"warmup_type": "cubic"})"), "linear or quadratic"));
    BOOST_TEST(has(problem_of("linear", R"({"warmup_type": "quadratic"})"), "does not take"));
}

BOOST_AUTO_TEST_CASE(a_share_of_all_steps_is_rounded_up) {
    BOOST_TEST(optim::num_warmup_steps(0.1, 24) == 3);
    BOOST_TEST(optim::num_warmup_steps(0.1, 30) == 3);
    BOOST_TEST(optim::num_warmup_steps(0, 30) == 0);
    BOOST_TEST(optim::num_warmup_steps(1, 30) == 1);
    BOOST_TEST(optim::num_warmup_steps(7, 30) == 7);
}

BOOST_AUTO_TEST_CASE(what_a_schedule_is_not_told_is_named) {
    BOOST_TEST(problem_of("cosine", "{\"num_cycles\": 0.25}").empty());
    BOOST_TEST(problem_of("linear", "{}").empty());
    BOOST_TEST(
        has(problem_of("linear", "{\"min_lr\": 0.1}"), "the schedule linear does not take min_lr"));
    BOOST_TEST(has(problem_of("cosine", "{\"num_cycle\": 1}"), "it takes num_cycles"));
    BOOST_TEST(has(problem_of("cosine_with_min_lr", "{}"), "needs min_lr"));
    BOOST_TEST(has(problem_of("cosine_with_min_lr", "{\"min_lr\": 1e-6, \"min_lr_rate\": 0.1}"),
                   "and not both"));
    BOOST_TEST(has(problem_of("polynomial", "{\"lr_end\": 1}"), "must be below learning_rate"));
    BOOST_TEST(has(problem_of("warmup_stable_decay", "{}"), "needs num_decay_steps"));
    BOOST_TEST(has(problem_of("warmup_stable_decay", "{\"num_decay_steps\": 2.5}"),
                   "num_decay_steps = 2.5: must be a whole number of steps"));
    BOOST_TEST(
        has(problem_of("warmup_stable_decay", "{\"num_decay_steps\": 2, \"decay_type\": \"exp\"}"),
            "must be linear, cosine or 1-sqrt"));
    BOOST_TEST(has(problem_of("inverse_sqrt", "{\"timescale\": 0}"), "must be a number above 0"));
    BOOST_TEST(has(problem_of("cosine", "[1]"), "lr_scheduler_kwargs"));
}
