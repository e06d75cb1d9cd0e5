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

BOOST_AUTO_TEST_CASE(adamw_rounds_the_weights_on_the_way) {
    const ops::AdamWBuffers plain = buffers(false);
    const ops::AdamWBuffers with_copy = buffers(true);
    ops::adamw(plain, first_step);
    ops::adamw(with_copy, first_step);
    BOOST_TEST(with_copy.weights.equal(plain.weights));
    BOOST_TEST(with_copy.copy.equal(plain.weights.to(at::kBFloat16)));
}

BOOST_AUTO_TEST_CASE(lion_rounds_the_weights_on_the_way) {
    constexpr ops::LionStep step{1e-2, 0.9, 0.99, 0.1, 0.5, 1};
    const auto make = [](bool with_copy) {
        const ops::AdamWBuffers b = buffers(with_copy);
        return ops::LionBuffers{b.weights, at::ones_like(b.weights) * 0.01, b.gradient, b.copy};
    };
    const ops::LionBuffers plain = make(false);
    const ops::LionBuffers with_copy = make(true);
    const at::Tensor direction = at::sign(0.9 * plain.moment + 0.1 * 0.5 * plain.gradient);
    const at::Tensor weights = plain.weights * (1 - 1e-3) - 1e-2 * direction;
    const at::Tensor moment = 0.99 * plain.moment + 0.01 * 0.5 * plain.gradient;
    ops::lion(plain, step);
    ops::lion(with_copy, step);
    BOOST_TEST((plain.weights - weights).abs().max().item<double>() < 1e-6);
    BOOST_TEST((plain.moment - moment).abs().max().item<double>() < 1e-7);
    BOOST_TEST(with_copy.weights.equal(plain.weights));
    BOOST_TEST(with_copy.copy.equal(plain.weights.to(at::kBFloat16)));
}

// Against the formulas with x, y and z; without a gradient the copy gets the same bits.
BOOST_AUTO_TEST_CASE(schedule_free_updates_average_the_points) {
    constexpr ops::ScheduleFreeStep step{1e-2, 0.9, 0.99, 1e-8, 0.1, 0.5, 0.25, 2};
    for (const bool has_moment : {true, false})
        for (const auto type : {at::kFloat, at::kBFloat16}) {
            const ops::AdamWBuffers b = buffers(false);
            const ops::ScheduleFreeBuffers made{
                b.weights, b.gradient.flip(0) * 0.1,
                has_moment ? at::full_like(b.weights, 0.3) : at::Tensor(), b.gradient,
                at::empty_like(b.weights, type)};
            const at::Tensor gradient = 0.5 * b.gradient;
            const at::Tensor second = 0.99 * 0.3 + 0.01 * gradient.square();
            const at::Tensor root = (second / (1 - 0.99 * 0.99)).sqrt() + 1e-8;
            const at::Tensor y = b.weights + 0.1 * made.difference;
            at::Tensor z = b.weights + made.difference;
            z = z - 1e-2 * ((has_moment ? gradient / root : gradient) + 0.1 * y);
            const at::Tensor x = 0.75 * b.weights + 0.25 * z;
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

BOOST_AUTO_TEST_CASE(small_steps_are_not_lost_in_bf16_moments) {
    // One step changes the second moment by less than half a unit of bf16's last place: rounded to
    // nearest it would stay where it is.
    constexpr int64_t count = 20'000;
    const at::Tensor moment = at::full({count}, 1.0, at::kBFloat16);
    const ops::AdamWBuffers b{
        at::zeros({count}), at::ones({count}, at::kBFloat16), moment, at::empty({count}), {}};
    constexpr int steps = 300;
    for (int64_t step = 1; step <= steps; ++step) {
        b.gradient.fill_(1.5 / first_step.gradient_scale);  // second moments tend to 2.25
        ops::AdamWStep now = first_step;
        now.step = step;
        ops::adamw(b, now);
    }
    const double expected = 2.25 - 1.25 * std::pow(first_step.beta2, steps);
    const at::Tensor found = moment.to(at::kDouble);
    BOOST_TEST(std::abs(found.mean().item<double>() - expected) < 0.002 * expected);
    BOOST_TEST(found.std().item<double>() < 0.1);
}

BOOST_AUTO_TEST_CASE(bf16_moments_do_not_depend_on_who_holds_them) {
    constexpr int64_t count = 5'000;
    constexpr int64_t cut = 1'234;
    at::manual_seed(3);
    const auto with_moments = [&](const at::Tensor& weights, const at::Tensor& gradient) {
        const auto zeros = [&] { return at::zeros(weights.sizes(), at::kBFloat16); };
        return ops::AdamWBuffers{weights, zeros(), zeros(), gradient, {}};
    };
    const at::Tensor weights = at::randn({count});
    const at::Tensor gradient = at::randn({count});
    const ops::AdamWBuffers whole = with_moments(weights.clone(), gradient.clone());
    const ops::AdamWBuffers low =
        with_moments(weights.narrow(0, 0, cut).clone(), gradient.narrow(0, 0, cut).clone());
    ops::AdamWBuffers high = with_moments(weights.narrow(0, cut, count - cut).clone(),
                                          gradient.narrow(0, cut, count - cut).clone());
    high.first_place = cut;
    for (const ops::AdamWBuffers& part : {whole, low, high}) ops::adamw(part, first_step);
    BOOST_TEST(at::equal(whole.second_moment, at::cat({low.second_moment, high.second_moment})));
    BOOST_TEST(at::equal(whole.weights, at::cat({low.weights, high.weights})));
}
