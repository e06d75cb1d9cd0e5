// The runs that a sweep file describes.
#include "ringshard/config/sweep_file.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>

using namespace ringshard;
using namespace ringshard::config;

namespace {

Expected<Sweep> read(const std::string& yaml) {
    const auto file =
        std::filesystem::temp_directory_path() / format_text("ringshard_sweep_{}.yaml", getpid());
    std::ofstream(file) << yaml;
    auto sweep = read_sweep(file);
    std::filesystem::remove(file);
    return sweep;
}

std::string problem(const std::string& yaml) {
    const auto sweep = read(yaml);
    if (sweep) return {};
    BOOST_TEST(number(sweep.failure().code) == 78);
    return sweep.failure().message;
}

bool says(const std::string& message, const std::string& words) {
    if (message.find(words) != std::string::npos) return true;
    BOOST_TEST_MESSAGE(message);
    return false;
}

std::string value_of(const NamedTexts& settings, const std::string& name) {
    for (const auto& [key, text] : settings)
        if (key == name) return text;
    return "missing";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_grid_is_every_combination_the_last_name_fastest) {
    const auto sweep = read("name: rates\ngrid: {learning_rate: [1e-5, 2e-5], seed: [1, 2, 3]}\n");
    BOOST_TEST_REQUIRE(static_cast<bool>(sweep));
    BOOST_TEST(sweep.value().name == "rates");
    BOOST_TEST(sweep.value().runs.size() == 6U);
    BOOST_TEST((sweep.value().runs[0] == NamedTexts{{"learning_rate", "1e-5"}, {"seed", "1"}}));
    BOOST_TEST((sweep.value().runs[4] == NamedTexts{{"learning_rate", "2e-5"}, {"seed", "2"}}));
}

BOOST_AUTO_TEST_CASE(runs_of_one_job_are_adapters) {
    const auto sweep = read(
        "one_job: true\nsettings: {profile: zero2}\n"
        "list:\n- {lora_r: 4, rank_pattern: {q_proj: 2, a_proj: 3}}\n- {name: wide, lora_r: 8}\n");
    BOOST_TEST_REQUIRE(static_cast<bool>(sweep));
    BOOST_TEST(sweep.value().is_one_job);
    const NamedTexts job = sweep.value().settings_of_one_job();
    BOOST_TEST(value_of(job, "profile") == "zero2");
    BOOST_TEST(value_of(job, "adapters") ==
               R"([{"name":"0","lora_r":"4","rank_pattern":"{\"q_proj\":2,\"a_proj\":3}"},)"
               R"({"name":"wide","lora_r":"8"}])");
    BOOST_TEST(says(problem("one_job: maybe\nlist: [{seed: 1}]\n"), "one_job: must be true or"));
    BOOST_TEST(says(problem("name: \"a\\nb\"\nlist: [{seed: 1}]\n"), "without control characters"));
}

BOOST_AUTO_TEST_CASE(a_run_is_stronger_than_what_holds_for_all) {
    const auto sweep = read(
        "settings: {seed: 7, profile: zero2}\n"
        "list:\n- {learning_rate: 1e-5}\n- {seed: 8, report_to: [tensorboard]}\n");
    BOOST_TEST_REQUIRE(static_cast<bool>(sweep));
    BOOST_TEST(value_of(sweep.value().all_settings(0), "seed") == "7");
    const NamedTexts second = sweep.value().all_settings(1);
    BOOST_TEST(
        (second ==
         NamedTexts{{"profile", "zero2"}, {"seed", "8"}, {"report_to", "[\"tensorboard\"]"}}));
    BOOST_TEST(to_settings_file(second) ==
               "profile: \"zero2\"\nseed: 8\nreport_to: [\"tensorboard\"]\n");
}

BOOST_AUTO_TEST_CASE(draws_are_in_range_and_the_same_for_the_same_seed) {
    const auto yaml = [](int seed) {
        return format_text(
            "random:\n"
            "  count: 200\n"
            "  seed: {}\n"
            "  over:\n"
            "    learning_rate: {{log_uniform: [1e-6, 1e-3]}}\n"
            "    weight_decay: {{uniform: [0, 0.1]}}\n"
            "    seed: {{integer: [3, 5]}}\n"
            "    lr_scheduler_type: [linear, cosine]\n",
            seed);
    };
    const auto sweep = read(yaml(1));
    BOOST_TEST_REQUIRE(static_cast<bool>(sweep));
    BOOST_TEST((sweep.value().runs == read(yaml(1)).value().runs));
    BOOST_TEST((sweep.value().runs != read(yaml(2)).value().runs));
    std::set<std::string> seeds;
    std::set<std::string> schedules;
    int below_the_middle = 0;
    for (const NamedTexts& run : sweep.value().runs) {
        const double rate = std::stod(value_of(run, "learning_rate"));
        BOOST_TEST((rate >= 1e-6 && rate <= 1e-3));
        below_the_middle += rate < 3.16e-5 ? 1 : 0;
        const double decay = std::stod(value_of(run, "weight_decay"));
        BOOST_TEST((decay >= 0 && decay <= 0.1));
        seeds.insert(value_of(run, "seed"));
        schedules.insert(value_of(run, "lr_scheduler_type"));
    }
    BOOST_TEST((seeds == std::set<std::string>{"3", "4", "5"}));
    BOOST_TEST(schedules.size() == 2U);
    BOOST_TEST((below_the_middle > 70 && below_the_middle < 130));  // even on a logarithmic scale
}

BOOST_AUTO_TEST_CASE(what_is_no_sweep) {
    BOOST_TEST(says(problem("grid: {seed: []}"), "seed: has no value, so there is no run"));
    BOOST_TEST(says(problem("grid: {seed: 3}"), "seed: must be a list of values"));
    BOOST_TEST(says(problem("grid: {}"), "must name settings"));
    BOOST_TEST(says(problem("list: []"), "must hold runs"));
    BOOST_TEST(says(problem("settings: {seed: 1}"), "one of grid, list and random"));
    BOOST_TEST(
        says(problem("grid: {seed: [1]}\nlist: [{seed: 1}]"), "one of grid, list and random"));
    BOOST_TEST(says(problem("grid: {seed: [1]}\nname: a/b"), "must be the name of a folder"));
    BOOST_TEST(says(problem("grid: {seed: [1]}\nname: \"a\\nb\""),
                    "name = a\\nb: must be the name of a folder, without control"));
    BOOST_TEST(says(problem("gird: {seed: [1]}"), "gird: a sweep has name, settings"));
    BOOST_TEST(says(problem("random: {count: 0, over: {seed: [1]}}"), "count must be from 1"));
    BOOST_TEST(says(problem("random: {count: 2}"), "`over` must name settings"));
    BOOST_TEST(says(problem("random: {count: 2, over: {seed: {integer: [5, 1]}}}"),
                    "two numbers, the lower one first"));
    BOOST_TEST(says(problem("random: {count: 2, over: {seed: {integer: [1, 1e300]}}}"),
                    "numbers up to 1e15"));
    for (const auto* bytes : {"settings: {a: \xff}", "settings: {\xff: a}", "grid: {a: [\xff]}",
                              "grid: {\xff: [a]}", "name: \xff"})
        BOOST_TEST(says(problem(bytes), "is not UTF-8"), bytes);
    BOOST_TEST(says(problem("grid: {a: [\"\\uD800\"]}"), "invalid unicode"));
    BOOST_TEST(says(problem("random: {count: 2, over: {learning_rate: {log_uniform: [0, 1]}}}"),
                    "numbers above 0"));
    BOOST_TEST(
        says(problem("random: {count: 2, over: {seed: {normal: [0, 1]}}}"), "there is no normal"));
    BOOST_TEST(says(problem("grid: [unclosed"), ":1: "));
    const std::string thousand = "[" + [] {
        std::string numbers;
        for (int i = 0; i < 1000; ++i) numbers += concat(i == 0 ? "" : ", ", i);
        return numbers;
    }() + "]";
    BOOST_TEST(says(problem(format_text("grid: {{a: {}, b: {}}}", thousand, thousand)),
                    "makes more than 100000 runs"));
}
