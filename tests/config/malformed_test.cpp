// Malformed files and flags: each gives one problem, and none crashes the program.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "ringshard/base/text.hpp"
#include "ringshard/config/resolve.hpp"

using namespace ringshard;

namespace {

const config::OptionTable table;

std::string problem_of(const std::vector<std::string>& flags) {
    const config::Resolution resolution = config::resolve(table, flags, Environment());
    BOOST_TEST(resolution.problems.size() == 1U);
    if (resolution.problems.empty()) return "";
    BOOST_TEST(number(resolution.problems.front().code) == 78);
    return resolution.problems.front().message;
}

std::string problem_of_file(const std::string& content) {
    const auto file = std::filesystem::temp_directory_path() /
                      format_text("ringshard_malformed_{}.yaml", getpid());
    std::ofstream(file) << content;
    const std::string problem = problem_of({"--config", file.string()});
    std::filesystem::remove(file);
    return problem;
}

bool has(const std::string& message, const std::string& words) {
    BOOST_TEST_INFO_SCOPE(message);
    return message.find(words) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_that_no_optimizer_takes) {
    BOOST_TEST(has(problem_of({"--adam_beta1", "1"}), "must be below 1"));
    BOOST_TEST(has(problem_of({"--adam_beta2", "1.0"}), "must be below 1"));
    BOOST_TEST(has(problem_of({"--adam_beta2", "-0.1"}), "must be at least 0"));
    BOOST_TEST(has(problem_of({"--adam_epsilon", "0"}), "must be above 0"));
    BOOST_TEST(has(problem_of({"--learning_rate", "inf"}), "must be a number"));
    BOOST_TEST(has(problem_of({"--learning_rate", "nan"}), "must be a number"));
    BOOST_TEST(has(problem_of({"--num_train_epochs", "1e300"}), "must be at most"));
    BOOST_TEST(has(problem_of({"--save_steps", "1e300"}), "must be at most"));
    BOOST_TEST(has(problem_of({"--per_device_train_batch_size", "4611686018427387904"}),
                   "must be at most"));
}

BOOST_AUTO_TEST_CASE(aliases_that_hold_themselves) {
    BOOST_TEST(has(problem_of_file("report_to: &a [*a]\n"), "holds itself"));
    BOOST_TEST(has(problem_of_file("lr_scheduler_kwargs: &a {b: *a}\n"), "holds itself"));
}

BOOST_AUTO_TEST_CASE(a_few_lines_that_unfold_to_millions) {
    std::string bomb = "x0: &a0 [y, y, y, y, y, y, y, y, y, y]\n";
    for (int i = 1; i < 9; ++i) {
        const std::string inner = format_text("*a{}", i - 1);
        bomb +=
            format_text("x{}: &a{} [{}]\n", i, i, join(std::vector<std::string>(10, inner), ", "));
    }
    const config::Resolution resolution = [&] {
        const auto file = std::filesystem::temp_directory_path() /
                          format_text("ringshard_bomb_{}.yaml", getpid());
        std::ofstream(file) << bomb;
        auto result = config::resolve(table, {"--config", file.string()}, Environment());
        std::filesystem::remove(file);
        return result;
    }();
    BOOST_TEST(!resolution.problems.empty());
    BOOST_TEST(has(config::summary(resolution.problems).message, "more than a file of settings"));
}

BOOST_AUTO_TEST_CASE(json_that_is_nested_beyond_reason) {
    const std::string deep(100'000, '[');
    BOOST_TEST(has(problem_of({"--lr_scheduler_kwargs", deep}), "must be JSON"));
    BOOST_TEST(has(problem_of({"--fsdp_config", "{\"a\": " + deep}), "must be a mapping"));
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text) {
    BOOST_TEST(has(problem_of({"--output_dir", "run\xff"}),
                   "output_dir = run\xef\xbf\xbd [command line]"));
    BOOST_TEST(has(problem_of({"--model_name_or_path", "\xc3("}), "is not UTF-8"));
    BOOST_TEST(has(problem_of_file("run_name: \"\xff\"\n"), "UTF-8"));
    BOOST_TEST(has(problem_of_file("lr_scheduler_kwargs: {\xff: 1}\n"), "UTF-8"));
}
