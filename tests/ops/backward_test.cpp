// Every operation and its backward pass against autograd in double precision, on random shapes.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "autograd.hpp"
#include "ringshard/ops/activation.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/layer_norm.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/rope.hpp"
#include "ringshard/ops/swiglu.hpp"

using namespace ringshard;
using test::distance;
using test::leaf;

namespace {

template <class Check>
void for_shapes_and_types(Check check) {
    at::manual_seed(7);
    for (const auto type : {at::kFloat, at::kBFloat16})
        for (const int64_t tokens : {1, 3, 37, 260})
            for (const int64_t width : {2, 24, 64, 200}) {
                BOOST_TEST_INFO_SCOPE(tokens << " x " << width << " " << at::toString(type));
                check(tokens, width, at::TensorOptions(type), test::tolerance(type));
            }
}

}  // namespace

BOOST_AUTO_TEST_CASE(rms_norm) {
    constexpr double epsilon = 1e-6;
    for_shapes_and_types(
        [&](int64_t tokens, int64_t width, at::TensorOptions options, double tolerance) {
            const at::Tensor x = at::randn({tokens, width}, options);
            const at::Tensor weight = at::randn({width}, options);
            const at::Tensor dy = at::randn_like(x);
            const at::Tensor earlier = at::randn_like(x);
            const at::Tensor wide_x = leaf(x);
            const at::Tensor wide_weight = leaf(weight);
            const at::Tensor y =
                wide_weight * wide_x * (wide_x.square().mean(-1, true) + epsilon).rsqrt();
            test::backward(y, dy);

            const ops::RmsNormed normed = ops::rms_norm(x, weight, epsilon);
            BOOST_TEST(distance(normed.y, y) < tolerance);
            BOOST_TEST(at::equal(ops::rms_norm_again(x, weight, normed.inverse_rms), normed.y));
            // Both gradients are added to what is there.
            const at::Tensor dx = earlier.clone();
            const at::Tensor d_weight = at::ones({width});
            ops::rms_norm_backward(dy, x, normed.inverse_rms, weight, dx, d_weight);
            BOOST_TEST(distance(dx, wide_x.grad() + earlier) < tolerance);
            BOOST_TEST(distance(d_weight, wide_weight.grad() + 1) < tolerance);
            // The same gradients, and y over dy.
            constexpr bool makes_normed = true;
            const at::Tensor rows = dy.clone();
            const at::Tensor same_dx = earlier.clone();
            const at::Tensor same_d_weight = at::ones({width});
            ops::rms_norm_backward(rows, x, normed.inverse_rms, weight, same_dx, same_d_weight,
                                   makes_normed);
            BOOST_TEST(rows.equal(normed.y));
            BOOST_TEST(same_dx.equal(dx));
            BOOST_TEST(same_d_weight.equal(d_weight));
        });
}

BOOST_AUTO_TEST_CASE(an_rms_norm_of_a_sum) {
    for (const double factor : {1.0, 0.22})
        for_shapes_and_types(
            [&](int64_t tokens, int64_t width, at::TensorOptions options, double tolerance) {
                const at::Tensor branch = at::randn({tokens, width}, options);
                const at::Tensor x = at::randn({tokens, width}, options);
                const ops::NormWeight weight(at::randn({width}, options), 1);
                const at::Tensor exact = factor * branch.to(at::kDouble) + x.to(at::kDouble);
                const at::Tensor sum = branch + x;
                const ops::RmsNormed normed = ops::add_rms_norm(branch, factor, x, weight, 1e-6);
                BOOST_TEST(distance(branch, exact) < tolerance);
                if (factor == 1) BOOST_TEST(at::equal(branch, sum));
                // The norm is that of the sum as it was rounded.
                const ops::RmsNormed apart = ops::rms_norm(branch, weight, 1e-6);
                BOOST_TEST(at::equal(normed.y, apart.y));
                BOOST_TEST(at::equal(normed.inverse_rms, apart.inverse_rms));
            });
}

// More columns than the threads of a team have packs at once, and an odd number of them.
BOOST_AUTO_TEST_CASE(a_wide_rms_norm) {
    at::manual_seed(9);
    for (const auto type : {at::kFloat, at::kBFloat16})
        for (const int64_t width : {1001, 2048, 3584, 4096, 8192, 16384}) {
            BOOST_TEST_INFO_SCOPE(width << " " << at::toString(type));
            const at::TensorOptions options(type);
            const at::Tensor x = at::randn({7, width}, options);
            const at::Tensor weight = at::randn({width}, options);
            const at::Tensor dy = at::randn_like(x);
            const at::Tensor wide_x = leaf(x);
            const at::Tensor wide_weight = leaf(weight);
            const at::Tensor y =
                wide_weight * wide_x * (wide_x.square().mean(-1, true) + 1e-6).rsqrt();
            test::backward(y, dy);
            const ops::RmsNormed normed = ops::rms_norm(x, weight, 1e-6);
            BOOST_TEST(distance(normed.y, y) < test::tolerance(type));
            BOOST_TEST(at::equal(ops::rms_norm_again(x, weight, normed.inverse_rms), normed.y));
            const at::Tensor dx = at::zeros_like(x);
            const at::Tensor d_weight = at::zeros({width});
            ops::rms_norm_backward(dy, x, normed.inverse_rms, weight, dx, d_weight);
            BOOST_TEST(distance(dx, wide_x.grad()) < test::tolerance(type));
            BOOST_TEST(distance(d_weight, wide_weight.grad()) < test::tolerance(type));
        }
}

BOOST_AUTO_TEST_CASE(an_rms_norm_that_adds_1) {
    for_shapes_and_types(
        [](int64_t tokens, int64_t width, at::TensorOptions options, double tolerance) {
            const at::Tensor x = at::randn({tokens, width}, options);
            const at::Tensor weight = at::randn({width}, options);
            const at::Tensor dy = at::randn_like(x);
            const at::Tensor wide_x = leaf(x);
            const at::Tensor wide_weight = leaf(weight);
            const at::Tensor y =
                (1 + wide_weight) * wide_x * (wide_x.square().mean(-1, true) + 1e-6).rsqrt();
            test::backward(y, dy);

            const ops::NormWeight factor(weight, 1);
            const ops::RmsNormed normed = ops::rms_norm(x, factor, 1e-6);
            BOOST_TEST(distance(normed.y, y) < tolerance);
            BOOST_TEST(at::equal(ops::rms_norm_again(x, factor, normed.inverse_rms), normed.y));
            const at::Tensor dx = at::zeros_like(x);
            const at::Tensor d_weight = at::zeros({width});
            ops::rms_norm_backward(dy, x, normed.inverse_rms, factor, dx, d_weight);
            BOOST_TEST(distance(dx, wide_x.grad()) < tolerance);
            BOOST_TEST(distance(d_weight, wide_weight.grad()) < tolerance);
        });
}

// Rows in fp32 beside a weight in bf16: the numbers of fp32, rounded where they have the type of
// the weight. GPUs have no kernels for that.
BOOST_AUTO_TEST_CASE(norms_of_rows_in_fp32_beside_a_weight_in_bf16) {
    if (ops::products_add(at::empty({1}))) return;
    at::manual_seed(3);
    for (const int64_t width : {7, 64, 1001}) {
        const at::Tensor x = at::randn({5, width});
        const at::Tensor weight = at::randn({width}, at::kBFloat16);
        const at::Tensor dy = at::randn({5, width}, at::kBFloat16);
        const at::Tensor earlier = at::randn_like(x);
        const at::Tensor wide_weight = weight.to(at::kFloat);
        const at::Tensor wide_dy = dy.to(at::kFloat);

        const ops::RmsNormed normed = ops::rms_norm(x, weight, 1e-6);
        const ops::RmsNormed wide = ops::rms_norm(x, wide_weight, 1e-6);
        BOOST_TEST(normed.y.equal(wide.y.to(at::kBFloat16)));
        BOOST_TEST(ops::rms_norm_again(x, weight, normed.inverse_rms).equal(normed.y));
        const at::Tensor dx = earlier.clone();
        const at::Tensor d_weight = at::ones({width});
        const at::Tensor wide_dx = earlier.clone();
        const at::Tensor wide_d_weight = at::ones({width});
        const at::Tensor rows = dy.clone();
        ops::rms_norm_backward(rows, x, normed.inverse_rms, weight, dx, d_weight, true);
        ops::rms_norm_backward(wide_dy, x, wide.inverse_rms, wide_weight, wide_dx, wide_d_weight);
        BOOST_TEST(dx.scalar_type() == at::kFloat);
        BOOST_TEST(distance(dx, wide_dx) < 1e-6);
        BOOST_TEST(distance(d_weight, wide_d_weight) < 1e-6);
        BOOST_TEST(rows.equal(normed.y));

        const at::Tensor centred = ops::layer_norm(x, {{weight, 1}, {}, 1e-6});
        const at::Tensor wide_centred = ops::layer_norm(x, {{wide_weight, 1}, {}, 1e-6});
        BOOST_TEST(centred.equal(wide_centred.to(at::kBFloat16)));
    }
}

BOOST_AUTO_TEST_CASE(layer_norm) {
    for_shapes_and_types([](int64_t tokens, int64_t width, at::TensorOptions options,
                            double tolerance) {
        constexpr double epsilon = 1e-2;
        const at::Tensor x = at::randn({tokens, width}, options);
        const at::Tensor weight = at::randn({width}, options);
        const at::Tensor bias = at::randn({width}, options);
        const at::Tensor dy = at::randn_like(x);
        const at::Tensor earlier = at::randn_like(x);
        const at::Tensor wide_x = leaf(x);
        const at::Tensor wide_weight = leaf(weight);
        const at::Tensor wide_bias = leaf(bias);
        test::backward(at::layer_norm(wide_x, {width}, 1 + wide_weight, wide_bias, epsilon), dy);

        const ops::LayerNorm norm{{weight, 1}, bias, epsilon};
        BOOST_TEST(distance(ops::layer_norm(x, norm),
                            at::layer_norm(wide_x, {width}, 1 + wide_weight, wide_bias, epsilon)) <
                   tolerance);
        const at::Tensor dx = earlier.clone();
        const at::Tensor d_weight = at::ones({width});
        const at::Tensor d_bias = at::ones({width});
        ops::layer_norm_backward(dy, x, norm, dx, d_weight, d_bias);
        BOOST_TEST(distance(dx, wide_x.grad() + earlier) < 2 * tolerance);
        BOOST_TEST(distance(d_weight, wide_weight.grad() + 1) < tolerance);
        BOOST_TEST(distance(d_bias, wide_bias.grad() + 1) < tolerance);
    });
}

BOOST_AUTO_TEST_CASE(activations) {
    using ops::Activation;
    for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                        Activation::relu, Activation::relu_squared})
        for (const bool gated : {false, true})
            for_shapes_and_types(
                [&](int64_t tokens, int64_t width, at::TensorOptions options, double tolerance) {
                    const int64_t columns = gated ? 2 * width : width;
                    const at::Tensor inner = at::randn({tokens, columns}, options);
                    const at::Tensor dy = at::randn({tokens, width}, options);
                    const at::Tensor wide = leaf(inner);
                    const at::Tensor x = wide.narrow(1, 0, width);
                    at::Tensor y = activation == Activation::silu        ? at::silu(x)
                                   : activation == Activation::gelu      ? at::gelu(x)
                                   : activation == Activation::gelu_tanh ? at::gelu(x, "tanh")
                                   : activation == Activation::relu      ? at::relu(x)
                                                                         : at::relu(x).square();
                    if (gated) y = y * wide.narrow(1, width, width);
                    test::backward(y, dy);

                    const at::Tensor product = ops::activate(activation, gated, inner);
                    BOOST_TEST(distance(product, y) < tolerance);
                    ops::activate_backward(activation, gated, dy, inner);
                    BOOST_TEST(distance(inner, wide.grad()) < 2 * tolerance);
                    BOOST_TEST(distance(dy, y) < tolerance);
                });
}

BOOST_AUTO_TEST_CASE(swiglu) {
    for_shapes_and_types(
        [](int64_t tokens, int64_t width, at::TensorOptions options, double tolerance) {
            const at::Tensor gate_up = 3 * at::randn({tokens, 2 * width}, options);
            const at::Tensor dy = at::randn({tokens, width}, options);
            const at::Tensor wide = leaf(gate_up);
            const at::Tensor y = at::silu(wide.narrow(1, 0, width)) * wide.narrow(1, width, width);
            test::backward(y, dy);

            const at::Tensor product = ops::swiglu(gate_up);
            BOOST_TEST(distance(product, y) < tolerance);
            const at::Tensor same = gate_up.clone();
            const at::Tensor same_dy = dy.clone();
            ops::swiglu_backward(dy, gate_up);
            BOOST_TEST(distance(gate_up, wide.grad()) < tolerance);
            BOOST_TEST(dy.equal(product));
            constexpr bool makes_product = false;
            const at::Tensor kept_dy = same_dy.clone();
            ops::swiglu_backward(same_dy, same, makes_product);
            BOOST_TEST(same.equal(gate_up));
            BOOST_TEST(same_dy.equal(kept_dy));
        });
}

BOOST_AUTO_TEST_CASE(linear) {
    const ops::Gemms gemms = ops::Gemms::open().value();
    for_shapes_and_types(
        [&](int64_t tokens, int64_t width, at::TensorOptions options, double tolerance) {
            const int64_t outputs = width + 5;
            const at::Tensor x = at::randn({tokens, width}, options);
            const at::Tensor weight = at::randn({outputs, width}, options);
            const at::Tensor bias = at::randn({outputs}, options);
            const at::Tensor dy = at::randn({tokens, outputs}, options);
            const at::Tensor wide_x = leaf(x);
            const at::Tensor wide_weight = leaf(weight);
            const at::Tensor wide_bias = leaf(bias);
            const at::Tensor y = at::linear(wide_x, wide_weight, wide_bias);
            test::backward(y, dy);

            BOOST_TEST(distance(ops::linear(gemms, x, weight, bias), y) < tolerance);
            BOOST_TEST(distance(ops::linear_backward_input(gemms, dy, weight), wide_x.grad()) <
                       tolerance);
            const at::Tensor d_weight = at::ones({outputs, width});
            ops::add_weight_gradient(gemms, d_weight, dy, x);
            BOOST_TEST(distance(d_weight, wide_weight.grad() + 1) < tolerance);
            // The first product of a sum writes it: the bits of a sum that begins with 0.
            const at::Tensor from_zeros = at::zeros({outputs, width});
            ops::add_weight_gradient(gemms, from_zeros, dy, x);
            const at::Tensor begun = at::full({outputs, width}, std::nan(""));
            ops::add_weight_gradient(gemms, begun, dy, x, true);
            BOOST_TEST(begun.equal(from_zeros));
            begun.fill_(std::nan(""));
            ops::add_weight_gradient(gemms, begun, dy.narrow(0, 0, 0), x.narrow(0, 0, 0), true);
            BOOST_TEST(begun.abs().sum().item<double>() == 0);
            const at::Tensor addend = at::randn({tokens, outputs}, options);
            BOOST_TEST(distance(ops::linear_add(gemms, x, weight, bias, addend),
                                y + addend.to(y.scalar_type())) < tolerance);
            BOOST_TEST(distance(ops::linear_add(gemms, x, weight, {}, addend),
                                y - wide_bias + addend.to(y.scalar_type())) < tolerance);
            const at::Tensor wider = at::zeros({tokens + 2, outputs}, options);
            const at::Tensor into = wider.narrow(0, 1, tokens);
            ops::linear_add(gemms, x, weight, bias, addend, into);
            BOOST_TEST(into.equal(ops::linear_add(gemms, x, weight, bias, addend)));
            for (const int64_t beside : {int64_t{0}, tokens + 1})
                BOOST_TEST(wider[beside].abs().sum().item<double>() == 0);
            const at::Tensor d_bias = at::ones({outputs});
            ops::add_bias_gradient(d_bias, dy);
            BOOST_TEST(distance(d_bias, wide_bias.grad() + 1) < tolerance);
        });
}

BOOST_AUTO_TEST_CASE(embedding) {
    constexpr int64_t vocabulary = 11;  // small, so that tokens repeat
    constexpr int64_t left_out = 4;
    for_shapes_and_types([&](int64_t tokens, int64_t width, at::TensorOptions options,
                             double tolerance) {
        const at::Tensor table = at::randn({vocabulary, width}, options);
        const at::Tensor places = at::randint(vocabulary, {tokens}, at::TensorOptions(at::kLong));
        const at::Tensor dy = at::randn({tokens, width}, options);
        const at::Tensor wide = leaf(table);
        const at::Tensor y = at::index_select(wide, 0, places);
        test::backward(y, dy);

        BOOST_TEST(at::equal(ops::embedding(places, table).to(at::kDouble), y));
        const at::Tensor d_table = at::ones({vocabulary, width});
        ops::embedding_backward(dy, places, d_table, {});
        BOOST_TEST(distance(d_table, wide.grad() + 1) < tolerance);
        const at::Tensor without = at::zeros({vocabulary, width});
        ops::embedding_backward(dy, places, without, left_out);
        BOOST_TEST(without[left_out].abs().sum().item<double>() == 0);
        const at::Tensor others = wide.grad().slice(0, left_out + 1);
        if (others.abs().sum().item<double>() > 0)
            BOOST_TEST(distance(without.slice(0, left_out + 1), others) < tolerance);
    });
}

// Frequent tokens stand at thousands of places: their rows are added up in parts.
BOOST_AUTO_TEST_CASE(gradients_of_an_embedding_whose_tokens_follow_zipfs_law) {
    at::manual_seed(12);
    constexpr int64_t vocabulary = 300;
    constexpr int64_t width = 24;
    const at::Tensor law = at::arange(1, vocabulary + 1).to(at::kDouble).reciprocal();
    for (const int64_t tokens : {255, 256, 257, 512, 5000}) {
        BOOST_TEST_INFO_SCOPE(tokens << " tokens");
        const at::Tensor drawn = at::multinomial(law, tokens, true);
        const at::Tensor alike = at::full({tokens}, 7, at::kLong);
        for (const at::Tensor& places : {drawn, alike}) {
            const at::Tensor dy = at::randn({tokens, width}).to(at::kBFloat16);
            const at::Tensor expected = at::ones({vocabulary, width}, at::kDouble);
            expected.index_add_(0, places, dy.to(at::kDouble));
            const at::Tensor first = at::ones({vocabulary, width});
            ops::embedding_backward(dy, places, first, 2);
            expected[2].fill_(1);
            BOOST_TEST(distance(first, expected) < 1e-5);
            const at::Tensor second = at::ones({vocabulary, width});
            ops::embedding_backward(dy, places, second, 2);
            BOOST_TEST(at::equal(first, second));
        }
    }
}

// Of heads of 12, the first 8 elements; the others stay to the bit.
BOOST_AUTO_TEST_CASE(heads_that_rotate_in_part) {
    at::manual_seed(8);
    constexpr int64_t head_dim = 12;
    constexpr int64_t width = 8;
    for (const auto type : {at::kFloat, at::kBFloat16})
        for (const bool is_interleaved : {false, true}) {
            const at::Tensor rows = at::randn({19, 3 * head_dim}, type);
            const at::Tensor before = rows.clone();
            ops::RopeTable table = ops::make_rope_table(
                at::randint(5000, {19}, at::TensorOptions(at::kLong)), at::rand({width / 2}), 1.0);
            table.head_dim = head_dim;
            table.is_interleaved = is_interleaved;
            ops::rope(rows, 2, table, ops::Turn::forward);

            const auto heads = [](const at::Tensor& all) {
                return all.view({19, 3, head_dim}).narrow(1, 0, 2);
            };
            const at::Tensor x = heads(before).narrow(2, 0, width).to(at::kDouble);
            const int64_t half = width / 2;
            const at::Tensor pairs = is_interleaved ? x.unflatten(2, {half, 2})
                                                    : x.unflatten(2, {2, half}).transpose(2, 3);
            const at::Tensor a = pairs.select(3, 0);
            const at::Tensor b = pairs.select(3, 1);
            const at::Tensor cosine = table.cosine.to(at::kDouble).unsqueeze(1);
            const at::Tensor sine = table.sine.to(at::kDouble).unsqueeze(1);
            at::Tensor y = at::stack({a * cosine - b * sine, b * cosine + a * sine}, 3);
            if (!is_interleaved) y = y.transpose(2, 3);
            BOOST_TEST(distance(heads(rows).narrow(2, 0, width), y.flatten(2)) <
                       test::tolerance(type));
            BOOST_TEST(
                at::equal(heads(rows).narrow(2, width, 4), heads(before).narrow(2, width, 4)));
            BOOST_TEST(at::equal(rows.narrow(1, 2 * head_dim, head_dim),
                                 before.narrow(1, 2 * head_dim, head_dim)));
            ops::rope(rows, 2, table, ops::Turn::backward);
            BOOST_TEST(distance(rows, before.to(at::kDouble)) < 2 * test::tolerance(type));
        }
}

BOOST_AUTO_TEST_CASE(rope) {
    at::manual_seed(8);
    for (const auto type : {at::kFloat, at::kBFloat16})
        for (const int64_t tokens : {1, 19, 130})
            for (const int64_t head_dim : {2, 24, 64}) {
                constexpr int64_t turned = 3;
                constexpr int64_t heads = 5;
                constexpr double scale = 1.1;
                const at::Tensor rows = at::randn({tokens, heads * head_dim}, type);
                const at::Tensor positions =
                    at::randint(5000, {tokens}, at::TensorOptions(at::kLong));
                const at::Tensor frequencies = at::rand({head_dim / 2});
                const at::Tensor dy = at::randn_like(rows);

                const at::Tensor wide = leaf(rows);
                const at::Tensor angle =
                    positions.to(at::kFloat).unsqueeze(1) * frequencies.unsqueeze(0);
                const at::Tensor cosine = (angle.cos() * scale).to(at::kDouble).unsqueeze(1);
                const at::Tensor sine = (angle.sin() * scale).to(at::kDouble).unsqueeze(1);
                const at::Tensor all = wide.view({tokens, heads, head_dim});
                const at::Tensor low = all.narrow(1, 0, turned).narrow(2, 0, head_dim / 2);
                const at::Tensor high =
                    all.narrow(1, 0, turned).narrow(2, head_dim / 2, head_dim / 2);
                const at::Tensor y =
                    at::cat({at::cat({low * cosine - high * sine, high * cosine + low * sine}, 2),
                             all.narrow(1, turned, heads - turned)},
                            1)
                        .view(rows.sizes());
                test::backward(y, dy);

                const ops::RopeTable table = ops::make_rope_table(positions, frequencies, scale);
                ops::rope(rows, turned, table, ops::Turn::forward);
                BOOST_TEST(distance(rows, y) < test::tolerance(type));
                ops::rope(dy, turned, table, ops::Turn::backward);
                BOOST_TEST(distance(dy, wide.grad()) < test::tolerance(type));
            }
}
