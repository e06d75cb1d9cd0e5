#include "check_numbers.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

using namespace ringshard;

BOOST_AUTO_TEST_CASE(sums_are_exact_in_bf16_for_any_world) {
    constexpr int64_t first = 5;
    constexpr int64_t count = 500;
    for (const int64_t world : {1, 2, 8, 64, 65, 100, 256, 1000}) {
        BOOST_TEST_INFO_SCOPE(world << " ranks");
        for (const auto type : {at::kLong, at::kFloat, at::kBFloat16}) {
            const cli::CheckNumbers numbers(world, at::TensorOptions(at::kCPU).dtype(type));
            at::Tensor up = at::zeros({count}, type);
            at::Tensor down = at::zeros({count}, type);
            for (int64_t rank = 0; rank < world; ++rank) {
                up += numbers.of_rank(rank, first, count);
                down += numbers.of_rank(world - 1 - rank, first, count);
            }
            BOOST_TEST(up.equal(numbers.sum_of_all(first, count)));
            BOOST_TEST(down.equal(up));
        }
    }
}

BOOST_AUTO_TEST_CASE(every_rank_has_numbers_of_its_own) {
    for (const int64_t world : {4, 100, 1000}) {
        const cli::CheckNumbers numbers(world, at::TensorOptions(at::kCPU).dtype(at::kLong));
        for (int64_t rank = 1; rank < world; ++rank)
            BOOST_TEST(!numbers.of_rank(rank, 0, 1000).equal(numbers.of_rank(rank - 1, 0, 1000)));
    }
}
