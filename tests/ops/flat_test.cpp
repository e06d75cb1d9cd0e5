#include "ringshard/ops/flat.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

using namespace ringshard;

// Against the formulas with x, y and z; without a gradient the copy gets the same bits.
BOOST_AUTO_TEST_CASE(schedule_free_updates_average_the_points) {
    constexpr ops::ScheduleFreeStep step{1e-2, 0.9, 0.99, 1e-8, 0.1, 0.5, 0.25, 2};
    constexpr int64_t count = 40'001;  // blocks, and something left over
    for (const bool has_moment : {true, false})
        for (const auto type : {at::kFloat, at::kBFloat16}) {
            at::manual_seed(1);
            const at::Tensor weights = at::randn({count});
            const ops::ScheduleFreeBuffers made{weights.clone(), at::randn({count}) * 0.1,
                                                has_moment ? at::full({count}, 0.3) : at::Tensor(),
                                                at::randn({count}), at::empty({count}, type)};
            const at::Tensor gradient = 0.5 * made.gradient;
            const at::Tensor second = 0.99 * 0.3 + 0.01 * gradient.square();
            const at::Tensor root = (second / (1 - 0.99 * 0.99)).sqrt() + 1e-8;
            const at::Tensor y = weights + 0.1 * made.difference;
            at::Tensor z = weights + made.difference;
            z = z - 1e-2 * ((has_moment ? gradient / root : gradient) + 0.1 * y);
            const at::Tensor x = 0.75 * weights + 0.25 * z;
            ops::schedule_free(made, step);
            BOOST_TEST((made.weights - x).abs().max().item<double>() < 1e-6);
            BOOST_TEST((made.difference - (z - x)).abs().max().item<double>() < 1e-6);
            const at::Tensor copy = made.copy.clone();
            const double off = type == at::kFloat ? 1e-6 : 2e-2;
            BOOST_TEST((copy - (0.1 * z + 0.9 * x)).abs().max().item<double>() < off);
            ops::schedule_free({made.weights, made.difference, made.second_moment, {}, made.copy},
                               step);
            BOOST_TEST(made.copy.equal(copy));
        }
}
