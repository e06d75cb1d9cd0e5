// Slices of splits, and the samples of mixtures, as `datasets` chooses them.
#include <boost/test/unit_test.hpp>

#include "data_golden.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "split_slice.hpp"

using namespace ringshard;
using namespace ringshard::data;
using text::Value;

namespace {

// [[name, begin, end]] for every slice of a sum; nothing where it is refused.
std::optional<Value> rows_of_sum(const std::string& text, const Value& sizes) {
    const auto slices = read_splits(text);
    if (!slices) return std::nullopt;
    Value::List rows;
    for (const SplitSlice& slice : slices.value()) {
        const auto range = rows_of(slice, *sizes.find(slice.split)->integer());
        if (!range) return std::nullopt;
        rows.emplace_back(
            Value::List{Value(slice.split), Value(range.value().begin), Value(range.value().end)});
        // Written and read again it is the same slice.
        BOOST_TEST(to_text(read_splits(to_text(slice)).value().front()) == to_text(slice));
    }
    return Value(std::move(rows));
}

SampleChoice choice_of(const Value& golden) {
    SampleChoice choice;
    uint64_t end = 0;
    for (const int64_t size : test::integers(*golden.find("sizes"))) {
        choice.source_ends.push_back(end += static_cast<uint64_t>(size));
        choice.names.push_back(format_text("source {}", choice.names.size()));
    }
    for (const Value& weight : *golden.find("weights")->list())
        choice.weights.push_back(*weight.real());
    choice.drawing.seed = *golden.find("seed")->integer();
    if (*golden.find("strategy")->string() == "all_exhausted")
        choice.drawing.stops = config::StoppingStrategy::all_exhausted;
    return choice;
}

}  // namespace

BOOST_AUTO_TEST_CASE(slices_are_those_of_datasets) {
    const Value golden = test::read_json(test::golden_file("mixtures/slices.json"));
    const Value::List& cases = *golden.find("cases")->list();
    BOOST_TEST_REQUIRE(cases.size() == 500U);
    for (const Value& one : cases) {
        const std::string& text = *one.find("text")->string();
        const auto rows = rows_of_sum(text, *one.find("sizes"));
        BOOST_TEST(to_json(rows.value_or(Value())) == to_json(*one.find("rows")), text);
    }
    for (const Value& text : *golden.find("malformed")->list()) {
        const auto slices = read_splits(*text.string());
        BOOST_TEST(!slices, *text.string());
        if (!slices) BOOST_TEST(number(slices.failure().code) == 78);
    }
    // `datasets` takes the 50 as percents.
    BOOST_TEST(!read_splits("train[10%:50]"));
}

BOOST_AUTO_TEST_CASE(only_as_many_rows_are_counted_as_a_slice_needs) {
    const auto needed = [](const std::string& text) {
        return read_splits(text).value().front().rows_to_count();
    };
    BOOST_TEST(*needed("train[5:10]") == 10);
    BOOST_TEST(*needed("train[:10]") == 10);
    for (const char* text : {"train[5:]", "train[-5:10]", "train[:-1]", "train[:10%]", "train"})
        BOOST_TEST(!needed(text).has_value(), text);
    BOOST_TEST(reaches_beyond(read_splits("train[5:11]").value().front(), 10));
    BOOST_TEST(reaches_beyond(read_splits("train[-11:]").value().front(), 10));
    BOOST_TEST(!reaches_beyond(read_splits("train[-10:10]").value().front(), 10));
}

BOOST_AUTO_TEST_CASE(samples_are_drawn_as_interleave_datasets_draws_them) {
    const Value golden = test::read_json(test::golden_file("mixtures/interleaved.json"));
    BOOST_TEST_REQUIRE(golden.list()->size() == 80U);
    for (const Value& one : *golden.list()) {
        const auto samples = choose_samples(choice_of(one)).value();
        BOOST_TEST((samples == test::integers(*one.find("samples"))),
                   to_json(*one.find("weights")));
    }
}

BOOST_AUTO_TEST_CASE(epochs_repeat_a_source) {
    const SampleChoice choice{.source_ends = {3, 5}, .names = {"a", "b"}, .epochs = {0.34, 2.5}};
    const auto samples = choose_samples(choice).value();
    BOOST_TEST(samples == std::vector<int64_t>({0, 3, 4, 3, 4, 3}),
               boost::test_tools::per_element());
    const std::vector<SourceUse> expected{{"a", 3, 1}, {"b", 2, 5}};
    BOOST_TEST((use_of_sources(choice, samples) == expected));
}

BOOST_AUTO_TEST_CASE(a_temperature_draws_small_sources_more_often) {
    SampleChoice choice{.source_ends = {900, 1000}, .names = {"large", "small"}};
    const auto small = [&](double temperature) {
        choice.drawing.temperature = temperature;
        const auto samples = choose_samples(choice).value();
        return static_cast<double>(use_of_sources(choice, samples)[1].taken) /
               static_cast<double>(samples.size());
    };
    choice.drawing.stops = config::StoppingStrategy::all_exhausted;
    BOOST_TEST(small(1.0) == 0.1, boost::test_tools::tolerance(0.2));
    BOOST_TEST(small(2.0) == 0.25, boost::test_tools::tolerance(0.1));
    BOOST_TEST(small(1e6) == 0.5, boost::test_tools::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(mixtures_that_do_not_end_are_refused) {
    SampleChoice choice{.source_ends = {10, 20}, .names = {"a", "b"}, .weights = {1.0, 1e-12}};
    choice.drawing.stops = config::StoppingStrategy::all_exhausted;
    const auto endless = choose_samples(choice);
    BOOST_TEST_REQUIRE(!endless);
    BOOST_TEST(number(endless.failure().code) == 78);
    choice.drawing.stops = config::StoppingStrategy::first_exhausted;
    BOOST_TEST(choose_samples(choice).value().size() == 10U);
    choice.source_ends = {10, 10};
    const auto empty = choose_samples(choice);
    BOOST_TEST_REQUIRE(!empty);
    BOOST_TEST(empty.failure().message.find("b has no sample") != std::string::npos);
    BOOST_TEST(!choose_samples({.source_ends = {10}, .names = {"a"}, .epochs = {1e12}}));
}
