// The order in which data ranks see rows, against Accelerate's own loader.
#include "ringshard/data/sample_order.hpp"

#include <boost/test/unit_test.hpp>

#include "data_golden.hpp"

using namespace ringshard;
using text::Value;

BOOST_AUTO_TEST_CASE(batches_are_those_of_accelerate) {
    const Value golden = test::read_json("order/order.json");
    for (const Value& one : *golden.find("cases")->list()) {
        const Value& data_seed = *one.find("data_seed");
        const Value& seed = data_seed.is_null() ? *one.find("seed") : data_seed;
        const data::Dealing dealing{.num_rows = *one.find("dataset_size")->integer(),
                                    .batch_size = *one.find("per_device_batch")->integer(),
                                    .num_ranks = *one.find("world_size")->integer(),
                                    .seed = *seed.integer(),
                                    .strategy = *one.find("sampling")->string() == "sequential"
                                                    ? config::SamplingStrategy::sequential
                                                    : config::SamplingStrategy::random,
                                    .drop_last = *one.find("drop_last")->truth()};
        const auto& epochs = *one.find("epochs")->list();
        for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
            const auto order = data::epoch_order(dealing, static_cast<int64_t>(epoch));
            const auto& ranks = *epochs[epoch].list();
            for (size_t rank = 0; rank < ranks.size(); ++rank) {
                std::vector<std::vector<int64_t>> batches;
                for (size_t begin = rank * static_cast<size_t>(dealing.batch_size);
                     begin < order.size();
                     begin += static_cast<size_t>(dealing.batch_size * dealing.num_ranks))
                    batches.emplace_back(
                        order.begin() + static_cast<std::ptrdiff_t>(begin),
                        order.begin() +
                            static_cast<std::ptrdiff_t>(std::min(
                                order.size(), begin + static_cast<size_t>(dealing.batch_size))));
                std::vector<std::vector<int64_t>> expected;
                for (const Value& batch : *ranks[rank].list())
                    expected.push_back(test::integers(batch));
                BOOST_TEST((batches == expected));
            }
        }
    }
}
