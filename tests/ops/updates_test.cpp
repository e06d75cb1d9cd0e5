#include "ringshard/ops/updates.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

using namespace ringshard;

namespace {

constexpr ops::UpdateStep first_step{
    .learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.5, .number = 1};
constexpr double beta2 = 0.999;

ops::AdamWRule adamw(const ops::UpdateStep& step = first_step) { return {step, 0.9, beta2, 1e-8}; }

ops::UpdateBuffers buffers(size_t num_moments, bool with_copy) {
    at::manual_seed(1);
    constexpr int64_t count = 40'001;  // blocks, and something left over
    ops::UpdateBuffers made{.weights = at::randn({count}), .gradient = at::randn({count})};
    for (size_t i = 0; i < num_moments; ++i) made.moments.push_back(at::full({count}, 0.01));
    if (with_copy) made.copy = at::zeros({count}, at::kBFloat16);
    return made;
}

double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_update_of_adamw_follows_the_sign_of_the_gradient) {
    const ops::UpdateBuffers b = buffers(2, false);
    for (const at::Tensor& moment : b.moments) moment.zero_();
    const at::Tensor expected =
        b.weights * (1 - 1e-3) - 1e-2 * b.gradient / (b.gradient.abs() + 2e-8);
    ops::update(b, adamw());
    BOOST_TEST(largest(b.weights - expected) < 1e-6);
}

BOOST_AUTO_TEST_CASE(lion_steps_by_the_sign_of_a_mean) {
    const ops::UpdateBuffers b = buffers(1, false);
    const at::Tensor gradient = 0.5 * b.gradient;
    const at::Tensor direction = at::sign(0.9 * b.moments[0] + 0.1 * gradient);
    const at::Tensor weights = b.weights * (1 - 1e-3) - 1e-2 * direction;
    const at::Tensor moment = 0.99 * b.moments[0] + 0.01 * gradient;
    ops::update(b, ops::LionRule(first_step, 0.9, 0.99));
    BOOST_TEST(largest(b.weights - weights) < 1e-6);
    BOOST_TEST(largest(b.moments[0] - moment) < 1e-7);
}

BOOST_AUTO_TEST_CASE(every_rule_rounds_the_weights_on_the_way) {
    for (const ops::UpdateRule& rule :
         {ops::UpdateRule(adamw()), ops::UpdateRule(ops::AdamRule(first_step, 0.9, beta2, 1e-8)),
          ops::UpdateRule(ops::LionRule(first_step, 0.9, 0.99)),
          ops::UpdateRule(ops::RmspropRule(first_step, 0.99, 1e-8)),
          ops::UpdateRule(ops::AdagradRule(first_step, 0.1, 1e-10)),
          ops::UpdateRule(ops::SgdRule(first_step)),
          ops::UpdateRule(ops::MomentumRule(first_step, 0.9, 0, true))}) {
        const ops::UpdateBuffers plain = buffers(ops::num_moments_of(rule), false);
        const ops::UpdateBuffers with_copy = buffers(ops::num_moments_of(rule), true);
        const at::Tensor before = plain.weights.clone();
        ops::update(plain, rule);
        ops::update(with_copy, rule);
        BOOST_TEST(!plain.weights.equal(before));
        BOOST_TEST(with_copy.weights.equal(plain.weights));
        BOOST_TEST(with_copy.copy.equal(plain.weights.to(at::kBFloat16)));
    }
}

BOOST_AUTO_TEST_CASE(small_steps_are_not_lost_in_bf16_moments) {
    // One step changes the second moment by less than half a unit of bf16's last place: rounded to
    // nearest it would stay where it is.
    constexpr int64_t count = 20'000;
    const at::Tensor moment = at::full({count}, 1.0, at::kBFloat16);
    ops::UpdateBuffers b{.weights = at::zeros({count}),
                         .moments = {at::ones({count}, at::kBFloat16), moment},
                         .gradient = at::empty({count})};
    constexpr int steps = 300;
    for (b.step = 1; b.step <= steps; ++b.step) {
        b.gradient.fill_(1.5 / first_step.gradient_scale);  // second moments tend to 2.25
        ops::UpdateStep now = first_step;
        now.number = b.step;
        ops::update(b, adamw(now));
    }
    const double expected = 2.25 - 1.25 * std::pow(beta2, steps);
    const at::Tensor found = moment.to(at::kDouble);
    BOOST_TEST(std::abs(found.mean().item<double>() - expected) < 0.002 * expected);
    BOOST_TEST(found.std().item<double>() < 0.1);
}

BOOST_AUTO_TEST_CASE(bf16_moments_do_not_depend_on_who_holds_them) {
    constexpr int64_t count = 5'000;
    constexpr int64_t cut = 1'234;
    at::manual_seed(3);
    const at::Tensor weights = at::randn({count});
    const at::Tensor gradient = at::randn({count});
    const auto update = [&](int64_t first, int64_t size) {
        const auto zeros = [&] { return at::zeros({size}, at::kBFloat16); };
        ops::UpdateBuffers part{.weights = weights.narrow(0, first, size).clone(),
                                .moments = {zeros(), zeros()},
                                .gradient = gradient.narrow(0, first, size).clone(),
                                .first_place = first};
        ops::update(part, adamw());
        return part;
    };
    const ops::UpdateBuffers whole = update(0, count);
    const ops::UpdateBuffers low = update(0, cut);
    const ops::UpdateBuffers high = update(cut, count - cut);
    BOOST_TEST(at::equal(whole.moments[1], at::cat({low.moments[1], high.moments[1]})));
    BOOST_TEST(at::equal(whole.weights, at::cat({low.weights, high.weights})));
}
