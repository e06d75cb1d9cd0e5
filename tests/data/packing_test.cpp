// Packing against TRL's, and its properties on random documents.
#include "packing.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <random>

#include "data_golden.hpp"
#include "ringshard/config/data_settings.hpp"

using namespace ringshard;
using namespace ringshard::data;
using config::PackingStrategy;
using text::Value;

namespace {

const std::map<std::string, PackingStrategy> strategies{{"bfd", PackingStrategy::bfd},
                                                        {"bfd_split", PackingStrategy::bfd_split},
                                                        {"wrapped", PackingStrategy::wrapped}};

std::vector<Piece> documents_of(const std::vector<int64_t>& lengths) {
    std::vector<Piece> documents;
    uint64_t begin = 0;
    for (const int64_t length : lengths) {
        documents.push_back({begin, static_cast<uint32_t>(length)});
        begin += static_cast<uint64_t>(length);
    }
    return documents;
}

// A row as numbers of tokens, counted over all documents; and the lengths of its documents.
std::vector<int64_t> tokens_of(std::span<const Piece> row) {
    std::vector<int64_t> tokens;
    for (const Piece& piece : row)
        for (uint32_t t = 0; t < piece.length; ++t)
            tokens.push_back(static_cast<int64_t>(piece.begin + t));
    return tokens;
}
std::vector<int64_t> lengths_of(std::span<const Piece> row) {
    std::vector<int64_t> lengths;
    for (const Piece& piece : row) {
        if (piece.goes_on == 0) lengths.push_back(0);
        lengths.back() += piece.length;
    }
    return lengths;
}

void expect_rows(const RowPlan& plan, const std::vector<std::vector<int64_t>>& rows,
                 const Value& seq_lengths) {
    BOOST_TEST_REQUIRE(plan.size() == static_cast<int64_t>(rows.size()));
    for (size_t i = 0; i < rows.size(); ++i) {
        const auto row = plan.row(static_cast<int64_t>(i));
        BOOST_TEST(tokens_of(row) == rows[i], boost::test_tools::per_element());
        const std::vector<int64_t> lengths =
            seq_lengths.is_null() ? std::vector<int64_t>{static_cast<int64_t>(rows[i].size())}
                                  : test::integers((*seq_lengths.list())[i]);
        BOOST_TEST(lengths_of(row) == lengths, boost::test_tools::per_element());
    }
}

// [[document, first token, length], ...] as numbers of tokens.
std::vector<int64_t> tokens_of(const Value& row, const std::vector<Piece>& documents) {
    std::vector<int64_t> tokens;
    for (const Value& entry : *row.list()) {
        const auto piece = test::integers(entry);
        const auto first =
            static_cast<int64_t>(documents[static_cast<size_t>(piece[0])].begin) + piece[1];
        for (int64_t t = 0; t < piece[2]; ++t) tokens.push_back(first + t);
    }
    return tokens;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_those_of_trl) {
    const Value golden = test::read_packed_json("packing/tokens.json.zst");
    for (const Value& one : *golden.find("cases")->list()) {
        const auto strategy = strategies.at(*one.find("strategy")->string());
        std::vector<int64_t> lengths;
        std::vector<int64_t> all_tokens;
        if (const Value* documents = one.find("documents")) {
            for (const Value& document : *documents->list()) {
                const auto tokens = test::integers(document);
                lengths.push_back(static_cast<int64_t>(tokens.size()));
                all_tokens.insert(all_tokens.end(), tokens.begin(), tokens.end());
            }
        } else {
            lengths = test::integers(*one.find("lengths"));
        }
        const auto documents = documents_of(lengths);
        std::vector<std::vector<int64_t>> rows;
        if (all_tokens.empty()) {
            for (const Value& row : *one.find("row_pieces")->list())
                rows.push_back(tokens_of(row, documents));
        } else {
            for (const Value& row : *one.find("rows")->list()) {
                rows.emplace_back();
                for (const int64_t token : test::integers(row))
                    rows.back().push_back(std::ranges::find(all_tokens, token) -
                                          all_tokens.begin());
            }
        }
        expect_rows(
            pack(documents, strategy, static_cast<uint32_t>(*one.find("max_length")->integer()),
                 trl_problem_size),
            rows, *one.find("seq_lengths"));
    }
}

BOOST_AUTO_TEST_CASE(rows_are_those_of_trl_at_every_size_of_a_map_batch) {
    const Value golden = test::read_packed_json("packing/pieces.json.zst");
    for (const Value& one : *golden.find("cases")->list()) {
        BOOST_TEST_INFO_SCOPE(*one.find("name")->string());
        const auto documents = documents_of(test::integers(*one.find("lengths")));
        size_t problem_size = trl_problem_size;
        if (const Value* options = one.find("map_kwargs")) {
            if (options->find("num_proc") != nullptr) continue;  // this program has no such cut
            const Value* size = options->find("batch_size");
            problem_size = size->is_null() ? 0 : static_cast<size_t>(*size->integer());
        }
        std::vector<std::vector<int64_t>> rows;
        for (const Value& row : *one.find("rows")->list())
            rows.push_back(tokens_of(row, documents));
        const Value* seq_lengths = one.find("seq_lengths");
        expect_rows(pack(documents, strategies.at(*one.find("strategy")->string()),
                         static_cast<uint32_t>(*one.find("L")->integer()), problem_size),
                    rows, seq_lengths == nullptr ? Value() : *seq_lengths);
    }
}

BOOST_AUTO_TEST_CASE(no_token_is_lost_or_doubled) {
    std::mt19937 random(3);
    for (const uint32_t max_length : {1U, 63U, 64U, 65U, 4096U, 300'000U}) {
        std::vector<int64_t> lengths(3000);
        for (int64_t& length : lengths) length = static_cast<int64_t>(random() % (max_length + 40));
        const auto documents = documents_of(lengths);
        for (const auto& [name, strategy] : strategies) {
            const RowPlan plan = pack(documents, strategy, max_length, 0);
            uint64_t total = 0;
            for (int64_t row = 0; row < plan.size(); ++row) {
                uint64_t length = 0;
                for (const Piece& piece : plan.row(row)) length += piece.length;
                BOOST_TEST(length <= max_length);
                BOOST_TEST(length > 0U);
                total += length;
            }
            uint64_t expected = 0;
            for (const int64_t length : lengths)
                expected += strategy == PackingStrategy::bfd
                                ? std::min<uint64_t>(max_length, static_cast<uint64_t>(length))
                                : static_cast<uint64_t>(length);
            BOOST_TEST(total == expected, name << " at " << max_length);
        }
    }
}
