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
        std::filesystem::temp_directory_path() / concat("ringshard_store_", getpid());
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
    BOOST_TEST(list.largest_token == 9);
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
    const Rows rows = one_row_each(TokenStore(std::move(list)), {});
    BOOST_TEST_REQUIRE(rows.size() == 3);
    const FlatBatch batch = flatten(rows, std::vector<int64_t>{2, 1, 0});
    BOOST_TEST(batch.tokens == (std::vector<int64_t>{4, 5, 6, 7, 1, 2, 3}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.targets == (std::vector<int64_t>{-100, -100, 7, -100, 2, 3, -100}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.document_starts == (std::vector<int64_t>{0, 1, 4}),
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

BOOST_FIXTURE_TEST_CASE(what_waits_in_the_spool_is_not_in_memory, Folder) {
    auto spool = TokenSpool::open(path / "spool").value();
    SampleList list;
    list.add(Numbers{1, 2}, Numbers{1, 7});
    list.add(Numbers{3}, Numbers{3});
    const SpooledBlock block = spool.put(list).value();
    BOOST_TEST(block.rest.tokens.capacity() == 0U);
    BOOST_TEST(block.rest.labels.capacity() == 0U);
    BOOST_TEST(block.rest.samples.size() == 2U);
    Numbers tokens;
    Numbers labels;
    BOOST_TEST(!spool.get(block, tokens, labels));
    BOOST_TEST(tokens == list.tokens, boost::test_tools::per_element());
    BOOST_TEST(labels == list.labels, boost::test_tools::per_element());
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
    auto writer = ArrayFileWriter::open(file, "about it", {{"numbers", 24}, {"none", 0}}, true);
    BOOST_TEST(!writer.value().write("numbers", 0, std::as_bytes(std::span(numbers))));
    {
        const ArrayFile mapped = ArrayFile::map(file).value();
        BOOST_TEST(mapped.about() == "about it");
        BOOST_TEST(mapped.array<uint64_t>("numbers").back() == 3U);
        BOOST_TEST(mapped.has("none"));
        BOOST_TEST(!mapped.has("other"));
    }
    const std::string whole = read_file(file).value();
    for (size_t i = 0; i < whole.size(); i += 3) {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ 0x21);
        std::ofstream(file, std::ios::binary) << changed;
        const auto mapped = ArrayFile::map(file);
        const bool is_head = i < 32 + 2 * 8 + 8 + 2 * 24 + 11;
        BOOST_TEST(mapped.operator bool() == !is_head, "byte " << i);
    }
    for (size_t length = 0; length < whole.size(); length += 7) {
        std::ofstream(file, std::ios::binary) << whole.substr(0, length);
        BOOST_TEST(!ArrayFile::map(file), "length " << length);
    }
    BOOST_TEST(!ArrayFile::map(path / "not there"));
}
