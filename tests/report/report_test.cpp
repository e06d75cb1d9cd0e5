#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "axis.hpp"
#include "numbers.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/report/plot.hpp"
#include "tensorboard.hpp"

using namespace ringshard;
using namespace ringshard::report;

namespace {

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_report_{}", getpid());
};

std::string labels(const Axis& axis) {
    std::vector<std::string> all;
    for (const Axis::Tick& tick : axis.ticks) all.push_back(tick.label);
    return join(all, " ") + (axis.unit.empty() ? "" : " " + axis.unit);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tags_are_those_of_transformers) {
    BOOST_TEST(tensorboard_tag("loss") == "train/loss");
    BOOST_TEST(tensorboard_tag("eval_loss") == "eval/loss");
    BOOST_TEST(tensorboard_tag("test_loss") == "test/loss");
    BOOST_TEST(tensorboard_tag("evaluated") == "train/evaluated");
    BOOST_TEST(tensorboard_tag("") == "train/");
}

// The beginning of every event file in the world: 24 bytes, their sums, the version.
BOOST_FIXTURE_TEST_CASE(event_files_begin_as_they_all_do, Folder) {
    const auto file = TensorBoardFile::create(path, "host", 1.5, 7).value();
    const auto content = read_file(file.path()).value();
    BOOST_TEST((content.substr(0, 12) == std::string("\x18\0\0\0\0\0\0\0\xa3\x7fK\"", 12)));
    BOOST_TEST((content.substr(12, 9) == std::string("\x09\0\0\0\0\0\0\xf8\x3f", 9)));
    BOOST_TEST(content.substr(21, 15) ==
               "\x1a\x0d"
               "brain.Event:2");
    BOOST_TEST(file.path().filename().string() ==
               format_text("events.out.tfevents.0000000001.host.{}", getpid()));
}

BOOST_FIXTURE_TEST_CASE(event_files_fail_with_a_value, Folder) {
    std::ofstream(path / "file") << "x";
    const auto made = TensorBoardFile::create(path / "file", "host", 1, 1);
    BOOST_TEST_REQUIRE(!made);
    BOOST_TEST(number(made.failure().code) == 74);
}

BOOST_AUTO_TEST_CASE(ticks_are_round) {
    BOOST_TEST(labels(linear_axis(0, 9.3, Counting::plain)) == "0 2 4 6 8 10");
    BOOST_TEST(labels(linear_axis(1.23, 1.81, Counting::plain)) ==
               "1.2 1.3 1.4 1.5 1.6 1.7 1.8 1.9");
    BOOST_TEST(labels(linear_axis(0, 412'345, Counting::plain)) == "0 100k 200k 300k 400k 500k");
    BOOST_TEST(labels(linear_axis(0, 2e-5, Counting::plain)) == "0 0.5 1 1.5 2 × 10⁻⁵");
    BOOST_TEST(labels(linear_axis(0, 3.2 * 1073741824, Counting::bytes)) ==
               "0 0.5 1 1.5 2 2.5 3 3.5 GiB");
    BOOST_TEST(labels(linear_axis(0, 0.041, Counting::seconds)) == "0 10 20 30 40 50 ms");
    BOOST_TEST(labels(linear_axis(0, 8e-5, Counting::seconds)) == "0 20 40 60 80 µs");
    BOOST_TEST(labels(linear_axis(0, 41, Counting::seconds)) == "0 10 20 30 40 50 s");
    BOOST_TEST(labels(linear_axis(-1.5, 2.5, Counting::plain)) == "-2 -1 0 1 2 3");
    BOOST_TEST(labels(step_axis(1, 3)) == "1 2 3");
    BOOST_TEST(labels(step_axis(10, 25'000)) == "5k 10k 15k 20k 25k");
    BOOST_TEST(labels(logarithmic_axis(0.3, 12)) == "0.5 1 2 5 10");
    BOOST_TEST(labels(logarithmic_axis(1e-3, 1e4)) == "0.001 0.01 0.1 1 10 100 1k 10k");
    BOOST_TEST(labels(logarithmic_axis(2.1, 2.9)) == "2.2 2.4 2.6 2.8");
}

BOOST_AUTO_TEST_CASE(one_value_has_an_axis_too) {
    for (const Axis& axis : {linear_axis(2, 2, Counting::plain), linear_axis(0, 0, Counting::plain),
                             linear_axis(-3, -3, Counting::plain), logarithmic_axis(2, 2),
                             step_axis(5, 5), linear_axis(1e-9, 1e-9, Counting::plain)}) {
        BOOST_TEST(axis.low < axis.high);
        BOOST_TEST((axis.ticks.size() >= 2 && axis.ticks.size() <= 12), labels(axis));
    }
}

BOOST_AUTO_TEST_CASE(a_long_run_is_thinned_and_keeps_its_extremes) {
    MetricsLog run{"long", {}};
    for (int64_t step = 1; step <= 50'000; ++step)
        run.steps[step] =
            text::Value(text::Value::Object{{"loss", text::Value(step == 777   ? 9.0
                                                                 : step == 778 ? 0.0
                                                                               : 2.0)}});
    const std::string svg = draw_svg({run}, LossScale::linear);
    BOOST_TEST(svg.size() < 100'000U);
    const size_t path = svg.find("d=\"M", svg.find("data-key=\"loss\""));
    const std::string drawn = svg.substr(path, svg.find("\"/>", path) - path);
    const auto ends_at = [&](const char* y) { return drawn.find(y) != std::string::npos; };
    // 0 and 10 are the ends of the axis; 9 is a tenth below its top.
    const double top = 44 + 30;
    const double bottom = 44 + 270 - 34;
    BOOST_TEST(ends_at((" " + shortest(bottom)).c_str()));
    BOOST_TEST(ends_at((" " + shortest(bottom - (bottom - top) * 0.9)).c_str()));
}

BOOST_AUTO_TEST_CASE(numbers_are_short) {
    const auto all = [](const std::vector<double>& values, std::string (*text)(double)) {
        std::vector<std::string> texts;
        for (const double value : values) texts.push_back(text(value));
        return join(texts, " ");
    };
    BOOST_TEST(all({0, 3, 135, 40005, 0.34955, 2.2222e-5, -1.5}, number_text) ==
               "0 3 135 40005 0.3496 2.222e-05 -1.5");
    BOOST_TEST(all({12345.6, 99999.7, 123456, 999999, 1e6, 7.25e9, 1e15}, number_text) ==
               "12.35k 100k 123.5k 1M 1M 7.25G 1000T");
    BOOST_TEST(all({0, 4.2e-5, 0.0031, 0.9999}, duration_text) == "0 s 42 \u00b5s 3.1 ms 1 s");
    BOOST_TEST(all({59.9, 60, 3599, 3600, 7500, 86399, 90000}, duration_text) ==
               "59.9 s 1 min 00 s 59 min 59 s 1 h 00 min 2 h 05 min 23 h 59 min 1 d 01 h");
}
