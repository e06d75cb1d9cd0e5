#include "ringshard/data/token_store.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <limits>
#include <numeric>

#include "ringshard/data/plan_rows.hpp"
#include "ringshard/data/rows.hpp"
#include "token_spool.hpp"

using namespace ringshard;
using namespace ringshard::data;
using Numbers = std::vector<int32_t>;

namespace {

Rows one_row_each(const TokenStore& store, const RowSettings& settings) {
    std::vector<int64_t> numbers(static_cast<size_t>(store.size()));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    RowReport report;
    return {store, plan_rows(store, numbers, settings, report)};
}

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_store_{}", getpid());
};

}  // namespace

BOOST_AUTO_TEST_CASE(labels_that_are_not_the_tokens_are_kept) {
    SampleList list;
    list.add(Numbers{1, 2, 3}, Numbers{1, no_label, 3});
    BOOST_TEST(list.labels.empty());
    list.add(Numbers{4, 0}, Numbers{no_label, 9});
    list.add(Numbers{5}, Numbers{5});
    BOOST_TEST(list.labels == (Numbers{1, no_label, 3, no_label, 9, 5}),
               boost::test_tools::per_element());
    BOOST_TEST(list.largest_token == 5);
    BOOST_TEST(list.largest_label == 9);
    const TokenStore store(std::move(list));
    BOOST_TEST(store.token(1) == 2);
    BOOST_TEST(store.label(1) == no_label);
    BOOST_TEST(store.label(4) == 9);
    BOOST_TEST(store.sample(1).first_label == 1U);
    BOOST_TEST(store.sample(1).end_label == 2U);
}

BOOST_AUTO_TEST_CASE(rows_have_shifted_targets_within_their_documents) {
    SampleList list;
    list.add(Numbers{1, 2, 3}, Numbers{1, 2, 3});
    list.add(Numbers{4, 5, 6, 7}, Numbers{4, 5, no_label, 7}, Numbers{1, 3});
    list.add({}, {});
    const TokenStore store(std::move(list));
    BOOST_TEST(one_row_each(store, {}).size() == 2);  // the empty one has nothing to learn
    const Rows rows = one_row_each(store, {.max_length = {}, .keeps_all = true});
    BOOST_TEST_REQUIRE(rows.size() == 3);
    const FlatBatch batch = flatten(rows, std::vector<int64_t>{2, 1, 0});
    BOOST_TEST(batch.tokens == (std::vector<int64_t>{4, 5, 6, 7, 1, 2, 3}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.targets == (std::vector<int64_t>{-100, -100, 7, -100, 2, 3, -100}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.document_starts == (std::vector<int64_t>{0, 1, 4}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_batch_is_sorted_by_the_length_of_its_documents) {
    SampleList list;
    const auto add = [&](const Numbers& tokens, const Numbers& documents) {
        std::vector<float> weights;
        for (const int32_t token : tokens) weights.push_back(0.5F * static_cast<float>(token));
        list.add(tokens, tokens, documents, weights);
    };
    add({1, 2, 3}, {1, 2});
    add({4, 5, 6, 7, 8}, {2, 3});
    Rows rows = one_row_each(TokenStore(std::move(list)), {});
    rows.give_scores({});
    const FlatBatch batch = flatten(rows, std::vector<int64_t>{0, 1});
    const FlatBatch sorted = sort_by_length(batch);
    BOOST_TEST(sorted.tokens == (std::vector<int64_t>{6, 7, 8, 2, 3, 4, 5, 1}),
               boost::test_tools::per_element());
    BOOST_TEST(sorted.targets == (std::vector<int64_t>{7, 8, -100, 3, -100, 5, -100, -100}),
               boost::test_tools::per_element());
    BOOST_TEST(sorted.weights == (std::vector<float>{3.5, 4, 0, 1.5, 0, 2.5, 0, 0}),
               boost::test_tools::per_element());
    BOOST_TEST(sorted.places == (std::vector<int64_t>{6, 7, 0, 2, 0, 4, 0, 0}),
               boost::test_tools::per_element());
    BOOST_TEST(sorted.scores == rows.scores());
    BOOST_TEST(sorted.document_starts == (std::vector<int64_t>{0, 3, 5, 7}),
               boost::test_tools::per_element());
    using Start = FlatBatch::RowStart;
    BOOST_TEST(
        (sorted.row_starts == std::vector<Start>{{1, 0, 2}, {0, 3, 1}, {1, 5, 0}, {0, 7, 0}}));
    BOOST_TEST((sort_by_length(sorted).row_starts == sorted.row_starts));
    FlatBatch of_adapters = batch;
    of_adapters.learner_starts = {{0, 0}, {3, 0}};
    BOOST_TEST(sort_by_length(of_adapters).tokens == batch.tokens,
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(both_ends_can_be_cut) {
    SampleList list;
    list.add(Numbers{1, 2, 3, 4, 5}, Numbers{no_label, no_label, no_label, 4, 5}, Numbers{2, 3});
    const TokenStore store(std::move(list));
    BOOST_TEST(one_row_each(store, {.max_length = 3}).size() == 0);
    const Rows end =
        one_row_each(store, {.max_length = 4, .truncation = config::TruncationMode::keep_end});
    BOOST_TEST(
        flatten(end, std::vector<int64_t>{0}).document_starts == (std::vector<int64_t>{0, 1}),
        boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(copies_have_the_same_tokens_labels_weights_and_documents) {
    SampleList list;
    list.add(Numbers{1, 2}, Numbers{1, 2});
    list.add(Numbers{1, 2}, Numbers{no_label, 2});
    list.add(Numbers{1, 2}, Numbers{1, 2});
    list.add(Numbers{1, 2}, Numbers{1, 2}, Numbers{1, 1});
    list.add(Numbers{1}, Numbers{1});
    const Numbers length{2};
    list.add(Numbers{1, 2}, Numbers{1, 2}, length, std::vector<float>{1, 0.5F});
    list.add(Numbers{1, 2}, Numbers{no_label, 2});
    list.add(Numbers{2, 1}, Numbers{2, 1});
    list.add(Numbers{1, 2}, Numbers{1, 2}, length);
    SampleChoice choice{.source_ends = {9}, .is_copy = find_copies(TokenStore(std::move(list)))};
    BOOST_TEST(choose_samples(choice).value() == (std::vector<int64_t>{0, 1, 3, 4, 5, 7}),
               boost::test_tools::per_element());
    // They are left out before a split: no row of training is evaluated.
    choice.test_size = 2;
    choice.side = SampleChoice::Side::train;
    BOOST_TEST(choose_samples(choice).value().size() == 4U);
}

// A run takes them from the file of the plan and looks at no row.
BOOST_FIXTURE_TEST_CASE(a_plan_keeps_the_totals_of_its_rows, Folder) {
    SampleList list;
    for (const int32_t length : {3, 9, 4, 1, 7, 2})
        list.add(Numbers(static_cast<size_t>(length), 5), Numbers(static_cast<size_t>(length), 5));
    list.add(Numbers(8, 5), Numbers(8, 5), Numbers{6, 2});
    const auto store_file = path / "tokens";
    BOOST_TEST(!write_array_file(
        store_file, R"({"largest_token": 5})",
        std::vector<NamedBytes>{
            {"tokens", std::as_bytes(std::span(list.tokens))},
            {"samples", std::as_bytes(std::span(list.samples))},
            {"document_ends", std::as_bytes(std::span(list.document_ends))},
            {"document_lengths", std::as_bytes(std::span(list.document_lengths))}}));
    const TokenStore store(std::move(list));
    const std::vector<int64_t> numbers{0, 1, 2, 3, 4, 5, 6};
    using Strategy = config::PackingStrategy;
    struct Case {
        RowSettings settings;
        RowTotals totals;
    };
    for (const Case& one :
         {Case{{.max_length = {}, .keeps_all = true}, {34, 9, 9}},
          Case{{.max_length = 5, .keeps_all = true}, {25, 5, 5}},
          Case{{.max_length = 8,
          .min_length = 4,
          .truncation = config::TruncationMode::drop,
          .keeps_all = true},
               {19, 8, 7}},
          Case{{.max_length = 10, .packs = true, .shuffles = true}, {34, 10, 9}},
          Case{{.max_length = 12, .packs = true, .strategy = Strategy::wrapped}, {34, 12, 12}}}) {
        RowReport report;
        const RowPlan plan = plan_rows(store, numbers, one.settings, report);
        BOOST_TEST((report.of_rows == one.totals));
        BOOST_TEST((Rows(store, plan).totals() == one.totals));
        const auto written = [&](const RowReport& kept) {
            text::Value about{text::Value::Object{}};
            about.set("report", to_value(kept));
            const auto file = path / "rows";
            BOOST_TEST(!write_array_file(
                file, to_json(about),
                std::vector<NamedBytes>{{"row_starts", std::as_bytes(std::span(plan.row_starts))},
                                        {"pieces", std::as_bytes(std::span(plan.pieces))}}));
            return Rows::map(store_file, file).value().totals();
        };
        BOOST_TEST((written(report) == one.totals));
        report.of_rows = {1000, 100, 10};
        BOOST_TEST((written(report) == report.of_rows));
    }
}

BOOST_FIXTURE_TEST_CASE(what_waits_in_the_spool_is_not_in_memory, Folder) {
    auto spool = TokenSpool::open(path / "spool").value();
    SampleList list;
    list.add(Numbers{1, 2}, Numbers{1, 7});
    const Numbers length{1};
    list.add(Numbers{3}, Numbers{3}, length, std::vector<float>{0.5F});
    const SpooledBlock block = spool.put(list).value();
    BOOST_TEST(block.rest.tokens.capacity() == 0U);
    BOOST_TEST(block.rest.labels.capacity() == 0U);
    BOOST_TEST(block.rest.weights.capacity() == 0U);
    BOOST_TEST(block.rest.samples.size() == 2U);
    SampleList read;
    BOOST_TEST(!spool.get(block, read));
    BOOST_TEST(read.tokens == list.tokens, boost::test_tools::per_element());
    BOOST_TEST(read.labels == list.labels, boost::test_tools::per_element());
    BOOST_TEST(read.weights == (std::vector<float>{1, 1, 0.5F}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(weights_stay_beside_their_tokens) {
    SampleList list;
    list.add(Numbers{1, 2}, Numbers{1, 2});
    const Numbers length{3};
    list.add(Numbers{3, 4, 5}, Numbers{3, no_label, 5}, length, std::vector<float>{0.25F, 0, 2});
    list.add(Numbers{6}, Numbers{6});
    BOOST_TEST(list.weights == (std::vector<float>{1, 1, 0.25F, 0, 2, 1}),
               boost::test_tools::per_element());
    RowPlan plan;
    plan.pieces = {{2, 2, 0}, {4, 1, 1}, {0, 2, 0}};
    plan.row_starts = {0, 3};
    const Rows rows(TokenStore(std::move(list)), std::move(plan));
    FlatBatch batch;
    rows.append(0, batch);
    BOOST_TEST(batch.targets == (std::vector<int64_t>{no_label, 5, no_label, 2, no_label}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.weights == (std::vector<float>{0, 2, 0, 1, 0}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.num_targets() == 2);
    BOOST_TEST(batch.loss_weight() == 3);
}

BOOST_FIXTURE_TEST_CASE(rows_that_reach_outside_are_refused, Folder) {
    const auto row_of_pieces = [&](uint64_t row_end, std::vector<Piece> pieces) {
        SampleList list;
        const std::vector<int32_t> tokens{5, 6, 7, 8};
        list.add(tokens, tokens);
        RowPlan plan;
        plan.row_starts = {0, row_end, pieces.size()};
        plan.pieces = std::move(pieces);
        const Rows rows(TokenStore(std::move(list)), plan);
        FlatBatch batch;
        rows.append(0, batch);
        return batch.tokens.size();
    };
    const auto row_of = [&](uint64_t row_end, Piece piece) {
        return row_of_pieces(row_end, {piece});
    };
    const auto is_damage = [](const Error& error) { return error.code() == ExitCode::bad_data; };
    constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
    BOOST_TEST(row_of(1, {1, 3, 0}) == 3U);
    BOOST_CHECK_EXCEPTION(row_of(1, {1, 4, 0}), Error, is_damage);
    BOOST_CHECK_EXCEPTION(row_of(1, {most - 1, 4, 0}), Error, is_damage);  // the sum is 2
    BOOST_CHECK_EXCEPTION(row_of(most, {1, 3, 0}), Error, is_damage);
    BOOST_CHECK_EXCEPTION(row_of(1, {1, 3, 1}), Error, is_damage);  // goes on after nothing
    BOOST_CHECK_EXCEPTION(row_of_pieces(2, {{1, 0, 0}, {1, 3, 1}}), Error, is_damage);
    BOOST_TEST(row_of_pieces(2, {{1, 2, 0}, {3, 1, 1}}) == 3U);

    SampleList list;
    list.tokens = {1, 2, 3};
    list.samples = {{.begin = 7}, {.begin = 2}};
    list.document_ends = {most, 0};
    const TokenStore store(std::move(list));
    for (const int64_t sample : {0, 1})
        BOOST_CHECK_EXCEPTION((void)store.documents(sample), Error, is_damage);
    BOOST_CHECK_EXCEPTION((void)store.length(0), Error, is_damage);
    BOOST_TEST(store.length(1) == 1U);
}

BOOST_FIXTURE_TEST_CASE(damaged_files_are_refused, Folder) {
    const auto file = path / "arrays";
    const std::vector<uint64_t> numbers{1, 2, 3};
    const std::vector<NamedBytes> arrays{{"numbers", std::as_bytes(std::span(numbers))},
                                         {"none", {}}};
    BOOST_TEST(!write_array_file(file, "about it", arrays));
    {
        const ArrayFile mapped = ArrayFile::map(file).value();
        BOOST_TEST(mapped.about() == "about it");
        BOOST_TEST(mapped.array<uint64_t>("numbers").back() == 3U);
        BOOST_TEST(mapped.has("none"));
        BOOST_TEST(!mapped.has("other"));
        BOOST_TEST(mapped.num_chunks() == 1U);
        BOOST_TEST(mapped.sum_checked(0, 1).value() == mapped.chunk_sum());
    }
    const std::string whole = read_file(file).value();
    const size_t array = 64;
    const size_t chunks = 128;  // one: after the array and what fills it up
    for (size_t i = 0; i < whole.size(); i += 3) {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ 0x21);
        std::ofstream(file, std::ios::binary) << changed;
        const auto mapped = ArrayFile::map(file);
        const bool is_head = i < 32 || i >= chunks + 24;
        BOOST_TEST_REQUIRE(mapped.operator bool() == !is_head, "byte " << i);
        if (is_head) continue;
        const bool is_content = i >= array && i < array + 24;
        const auto sum = mapped.value().sum_checked(0, 1);
        const bool is_whole = sum && sum.value() == mapped.value().chunk_sum();
        BOOST_TEST(is_whole == (!is_content && i < chunks), "byte " << i);
        if (is_content)
            BOOST_TEST(sum.failure().message ==
                       format_text("{}: the 24 bytes from byte 64 on are not those that were "
                                   "written: the file is damaged; remove it, and it is made again",
                                   file.string()));
    }
    for (size_t length = 0; length < whole.size(); length += 7) {
        std::ofstream(file, std::ios::binary) << whole.substr(0, length);
        BOOST_TEST(!ArrayFile::map(file), "length " << length);
    }
    BOOST_TEST(!ArrayFile::map(path / "not there"));
}

BOOST_FIXTURE_TEST_CASE(several_writers_make_one_file, Folder) {
    const auto file = path / "arrays";
    const std::vector<int32_t> numbers(700'000, 7);  // 2.8 MB: chunks of 1, 1 and 0.7 MiB
    const auto bytes = std::as_bytes(std::span(numbers));
    const auto write = [&](size_t cut) {
        const ArrayLayout layout({{"numbers", 2 * bytes.size()}}, 6);
        auto first = ArrayFileWriter::begin(file, layout).value();
        auto second = ArrayFileWriter::join(file, layout).value();
        // The second half is the second writer's, or the first one's too.
        auto& other = cut == 1 ? second : first;
        BOOST_TEST(!first.write("numbers", 0, bytes));
        BOOST_TEST(!other.write("numbers", bytes.size(), bytes));
        BOOST_TEST(!first.finish_part(0));
        BOOST_TEST(!second.finish_part(cut == 1 ? 3 : 6));
        BOOST_TEST(!ArrayFile::map(file));  // not before it is whole
        BOOST_TEST(!first.write_head("{}", first.chunk_sum() + second.chunk_sum()));
        return read_file(file).value();
    };
    const bool is_same = write(1) == write(2);
    BOOST_TEST(is_same);
    const ArrayFile mapped = ArrayFile::map(file).value();
    BOOST_TEST(mapped.num_chunks() == 6U);
    BOOST_TEST(mapped.sum_checked(0, 2).value() + mapped.sum_checked(2, 6).value() ==
               mapped.chunk_sum());
}

// Their hashes are right: somebody made them so.
BOOST_FIXTURE_TEST_CASE(ids_beyond_the_vocabulary_are_refused, Folder) {
    const auto refusal = [&](std::vector<int32_t> tokens, std::vector<int32_t> labels) {
        const std::vector<Sample> samples{{0, 0, 3}};
        const std::vector<uint64_t> starts{0, 1};
        const std::vector<Piece> pieces{{0, static_cast<uint32_t>(tokens.size()), 0}};
        const auto bytes = [](const auto& items) { return std::as_bytes(std::span(items)); };
        const std::vector<NamedBytes> arrays{
            {"tokens", bytes(tokens)}, {"labels", bytes(labels)}, {"samples", bytes(samples)}};
        const std::vector<NamedBytes> plan{{"row_starts", bytes(starts)},
                                           {"pieces", bytes(pieces)}};
        BOOST_TEST(!write_array_file(path / "tokens-0", R"({"largest_token": 319})", arrays));
        BOOST_TEST(!write_array_file(path / "rows-0", "{}", plan));
        FlatBatch batch;
        try {
            Rows::map(path / "tokens-0", path / "rows-0").value().append(0, batch);
        } catch (const Error& error) {
            BOOST_TEST(number(error.code()) == 65);
            return std::string(error.what());
        }
        return std::string();
    };
    const std::string file = (path / "tokens-0").string();
    const std::string end =
        " is not one of 0 to 319, which its head names: the file is damaged; remove it, and it is "
        "made again";
    BOOST_TEST(refusal({1, 319, ~318}, {}).empty());
    BOOST_TEST(refusal({1, 319, ~318}, {1, no_label, 319}).empty());
    BOOST_TEST(refusal({1, 200'000'000, 3}, {}) ==
               format_text("{}: the token 200000000 at byte 68{}", file, end));
    BOOST_TEST(refusal({1, ~320, 3}, {}) ==
               format_text("{}: the token 320 at byte 68{}", file, end));
    BOOST_TEST(refusal({1, 2, 3}, {1, 2, 700}) ==
               format_text("{}: the label 700 at byte 136{}", file, end));
    BOOST_TEST(refusal({1, 2, 3}, {-5, 2, 3}) ==
               format_text("{}: the label -5 at byte 128{}", file, end));
}
