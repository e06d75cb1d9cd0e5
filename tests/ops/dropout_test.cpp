// What is dropped depends on the token's key, the salt and the column, and on nothing else.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>

#include "dropout_mask.hpp"

using namespace ringshard;

BOOST_AUTO_TEST_CASE(masks_are_functions_of_their_keys) {
    at::manual_seed(3);
    constexpr int64_t tokens = 300;
    constexpr int64_t width = 200;
    const at::Tensor keys =
        at::randint(INT64_MIN, INT64_MAX, {tokens}, at::TensorOptions(at::kLong));
    for (const double probability : {0.05, 0.5}) {
        const ops::DropoutMask mask{keys, 0x123456789abcdef0U, probability};
        const at::Tensor x = at::rand({tokens, width}) + 1;
        const at::Tensor y = ops::dropout(x, mask);
        const at::Tensor kept = y.ne(0);
        BOOST_TEST(at::allclose(y, x * kept / (1 - probability)));
        BOOST_TEST(std::abs(1 - kept.to(at::kDouble).mean().item<double>() - probability) < 0.01);
        BOOST_TEST(ops::kept_elements(keys, mask, width).equal(kept));
        // Some tokens of the list, and another type.
        const at::Tensor part =
            ops::dropout(x.narrow(0, 7, 20), {keys.narrow(0, 7, 20), mask.salt, probability});
        BOOST_TEST(part.equal(y.narrow(0, 7, 20)));
        BOOST_TEST(ops::dropout(x.to(at::kBFloat16), mask).ne(0).equal(kept));
        const at::Tensor sum = at::ones({tokens, width});
        ops::add_dropout(sum, x, mask);
        BOOST_TEST(at::allclose(sum, y + 1));
        // Both with one mask.
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            const at::Tensor rows = at::rand({tokens, width}).to(type);
            const at::Tensor added = at::rand({tokens, width}).to(type);
            const at::Tensor apart = at::ones({tokens, width}, added.options());
            const at::Tensor together = apart.clone();
            ops::add_dropout(apart, added, mask);
            BOOST_TEST(
                ops::dropout_and_add(rows, together, added, mask).equal(ops::dropout(rows, mask)));
            BOOST_TEST(together.equal(apart));
        }
        // Another layer drops others.
        const at::Tensor other = ops::dropout(x, {keys, 0x0fedcba987654321U, probability}).ne(0);
        const double both = other.logical_not()
                                .logical_and(kept.logical_not())
                                .to(at::kDouble)
                                .mean()
                                .item<double>();
        BOOST_TEST(std::abs(both - probability * probability) < 0.01);
    }
}

BOOST_AUTO_TEST_CASE(noise_is_uniform_within_its_bounds) {
    at::manual_seed(4);
    constexpr int64_t tokens = 2100;  // more than are made at once
    constexpr int64_t width = 200;
    const at::Tensor keys =
        at::randint(INT64_MIN, INT64_MAX, {tokens}, at::TensorOptions(at::kLong));
    const at::Tensor bounds = at::rand({tokens}) + 0.5;
    const auto noise_of = [&](uint64_t salt, int64_t first, int64_t count) {
        at::Tensor x = at::zeros({count, width});
        ops::add_noise(x, keys.narrow(0, first, count), salt, bounds.narrow(0, first, count));
        return x;
    };
    const at::Tensor noise = noise_of(5, 0, tokens);
    const at::Tensor shares = (noise / bounds.unsqueeze(1)).to(at::kDouble);
    BOOST_TEST(shares.abs().le(1).all().item<bool>());
    BOOST_TEST(std::abs(shares.mean().item<double>()) < 0.005);
    BOOST_TEST(std::abs(shares.square().mean().item<double>() - 1.0 / 3) < 0.005);
    BOOST_TEST(noise_of(5, 1000, 700).equal(noise.narrow(0, 1000, 700)));
    BOOST_TEST(!noise_of(6, 0, tokens).equal(noise));
}
