// The order in which data ranks see rows, against Accelerate's own loader.
#include "ringshard/data/sample_order.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "data_golden.hpp"

using namespace ringshard;
using text::Value;

BOOST_AUTO_TEST_CASE(batches_are_those_of_accelerate) {
    const Value golden = test::read_json("order/order.json");
    for (const Value& one : *golden.find("cases")->list()) {
        const Value& data_seed = *one.find("data_seed");
        const Value& seed = data_seed.is_null() ? *one.find("seed") : data_seed;
        const data::SamplerOptions sampler{
            .num_rows = *one.find("dataset_size")->integer(),
            .batch_size = *one.find("per_device_batch")->integer(),
            .num_ranks = *one.find("world_size")->integer(),
            .seed = *seed.integer(),
            .strategy = *one.find("sampling")->string() == "sequential"
                            ? config::SamplingStrategy::sequential
                            : config::SamplingStrategy::random,
            .drop_last = *one.find("drop_last")->truth()};
        const auto& epochs = *one.find("epochs")->list();
        for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
            const data::EpochOrder order(sampler, static_cast<int64_t>(epoch));
            const auto& ranks = *epochs[epoch].list();
            for (size_t rank = 0; rank < ranks.size(); ++rank) {
                std::vector<std::vector<int64_t>> batches;
                for (int64_t begin = static_cast<int64_t>(rank) * sampler.batch_size;
                     begin < order.size(); begin += sampler.batch_size * sampler.num_ranks)
                    batches.push_back(
                        order.part(begin, std::min(order.size(), begin + sampler.batch_size)));
                std::vector<std::vector<int64_t>> expected;
                for (const Value& batch : *ranks[rank].list())
                    expected.push_back(test::integers(batch));
                BOOST_TEST((batches == expected));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(an_order_holds_four_bytes_a_row) {
    data::SamplerOptions sampler{.num_rows = 100'001, .batch_size = 2, .num_ranks = 4, .seed = 7};
    BOOST_TEST(data::EpochOrder(sampler, 1).bytes() == 4 * sampler.num_rows);
    sampler.strategy = config::SamplingStrategy::sequential;
    const data::EpochOrder in_turn(sampler, 1);
    BOOST_TEST(in_turn.bytes() == 0);
    BOOST_TEST(in_turn.part(99'998, in_turn.size()) ==
                   (std::vector<int64_t>{99'998, 99'999, 100'000, 0, 1, 2, 3, 4, 5, 6}),
               boost::test_tools::per_element());
}

// From 2^31 rows on.
BOOST_AUTO_TEST_CASE(wide_and_narrow_orders_are_the_same) {
    data::SamplerOptions sampler{.num_rows = 5003, .batch_size = 2, .num_ranks = 2, .seed = 3};
    sampler.group_size = 6;
    for (int64_t row = 0; row < sampler.num_rows; ++row)
        sampler.lengths.push_back(static_cast<uint32_t>(row * 7919 % 401));
    for (const auto strategy :
         {config::SamplingStrategy::random, config::SamplingStrategy::group_by_length}) {
        sampler.strategy = strategy;
        const auto narrow = data::draw_order<int32_t>(sampler, 2);
        BOOST_TEST(std::set(narrow.begin(), narrow.end()).size() == narrow.size());
        BOOST_TEST(data::draw_order<int64_t>(sampler, 2) ==
                       std::vector<int64_t>(narrow.begin(), narrow.end()),
                   boost::test_tools::per_element());
    }
}
