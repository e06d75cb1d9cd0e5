#include "ringshard/ops/flat.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

using namespace ringshard;

namespace {

constexpr ops::AdamWStep first_step{.learning_rate = 1e-2,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8,
                                    .weight_decay = 0.1,
                                    .gradient_scale = 0.5,
                                    .step = 1};

ops::AdamWBuffers buffers(bool with_copy) {
    at::manual_seed(1);
    constexpr int64_t count = 40'001;  // blocks, and something left over
    return {at::randn({count}), at::zeros({count}), at::zeros({count}), at::randn({count}),
            with_copy ? at::zeros({count}, at::kBFloat16) : at::Tensor()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_update_of_adamw_follows_the_sign_of_the_gradient) {
    const ops::AdamWBuffers b = buffers(false);
    const at::Tensor expected =
        b.weights * (1 - 1e-3) - 1e-2 * b.gradient / (b.gradient.abs() + 2e-8);
    ops::adamw(b, first_step);
    BOOST_TEST((b.weights - expected).abs().max().item<double>() < 1e-6);
}

BOOST_AUTO_TEST_CASE(adamw_clears_the_gradient_and_rounds_the_weights_on_the_way) {
    const ops::AdamWBuffers plain = buffers(false);
    const ops::AdamWBuffers with_copy = buffers(true);
    ops::adamw(plain, first_step);
    ops::adamw(with_copy, first_step);
    BOOST_TEST(with_copy.gradient.eq(0).all().item<bool>());
    BOOST_TEST(plain.gradient.eq(0).all().item<bool>());
    BOOST_TEST(with_copy.weights.equal(plain.weights));
    BOOST_TEST(with_copy.copy.equal(plain.weights.to(at::kBFloat16)));
}
