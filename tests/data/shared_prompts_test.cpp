// Batches of pairs that have the tokens that both documents begin with once.
#include <boost/test/unit_test.hpp>

#include "ringshard/data/plan_rows.hpp"
#include "ringshard/data/rows.hpp"

using namespace ringshard::data;

namespace {

constexpr int32_t none = no_label;
using Numbers = std::vector<int64_t>;

// The first pair has a prompt of three tokens, and both answers begin alike; in the second nothing
// is in common; in the third the shorter answer is the beginning of the other.
Rows pairs() {
    SampleList samples;
    samples.add(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 7},
                std::vector<int32_t>{none, none, none, 4, 5, 6, none, none, none, 4, 7},
                std::vector<int32_t>{6, 5});
    samples.add(std::vector<int32_t>{1, 2, 3, 4, 5}, std::vector<int32_t>{none, 2, 3, none, 5},
                std::vector<int32_t>{3, 2});
    samples.add(std::vector<int32_t>{1, 2, 3, 4, 1, 2, 3},
                std::vector<int32_t>{none, none, 3, 4, none, none, 3}, std::vector<int32_t>{4, 3});
    TokenStore store(std::move(samples));
    const RowContent content{.is_pair = true};
    RowReport report;
    RowPlan plan =
        plan_rows(store, Numbers{0, 1, 2}, {.max_length = {}, .content = content}, report);
    return {std::move(store), std::move(plan), content};
}

FlatBatch flat(const Numbers& rows) {
    Rows shared = pairs();
    shared.share_prompts();
    return flatten(shared, rows);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_prompt_stands_once) {
    const FlatBatch batch = flat({0, 1, 2});
    BOOST_TEST(
        batch.tokens == (Numbers{1, 2, 3, 4, 5, 6, 3, 4, 7, 1, 2, 3, 4, 5, 1, 2, 3, 4, 2, 3}),
        boost::test_tools::per_element());
    BOOST_TEST(batch.targets == (Numbers{none, none, 4, 5,    6,    none, 4, 7,    none, 2,
                                         3,    none, 5, none, none, 3,    4, none, 3,    none}),
               boost::test_tools::per_element());
    BOOST_TEST(batch.document_starts == (Numbers{0, 6, 9, 12, 14, 18}),
               boost::test_tools::per_element());
    BOOST_TEST((batch.branches == std::vector<FlatBatch::Branch>{{1, 0, 2}, {5, 4, 1}}));
    const FlatBatch apart = flatten(pairs(), Numbers{0, 1, 2});
    BOOST_TEST(apart.branches.empty());
    BOOST_TEST(batch.num_counted() == apart.num_counted());
    BOOST_TEST(batch.num_targets() == apart.num_targets());
    BOOST_TEST(batch.num_chosen_targets() == apart.num_chosen_targets());
    BOOST_TEST(batch.loss_weight() == apart.loss_weight());
}

BOOST_AUTO_TEST_CASE(the_longest_row_is_that_of_batches) {
    Rows rows = pairs();
    BOOST_TEST(longest_in_batches(rows) == 11);
    rows.share_prompts();
    BOOST_TEST(longest_in_batches(rows) == 9);
}

BOOST_AUTO_TEST_CASE(branches_follow_their_documents) {
    const FlatBatch sorted = sort_by_length(flat({0, 1, 2}));
    BOOST_TEST(sorted.document_starts == (Numbers{0, 6, 10, 13, 16, 18}),
               boost::test_tools::per_element());
    BOOST_TEST((sorted.branches == std::vector<FlatBatch::Branch>{{2, 0, 2}, {5, 1, 1}}));
    const FlatBatch first = flat({1});
    const FlatBatch second = flat({0});
    const FlatBatch joined = join_batches(std::vector<LearnerBatch>{{&first}, {&second}});
    BOOST_TEST((joined.branches == std::vector<FlatBatch::Branch>{{3, 2, 2}}));
    BOOST_TEST(joined.num_counted() == first.num_counted() + second.num_counted());
}
