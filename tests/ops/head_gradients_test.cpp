// The fused pass from gradients of heads to rows, against the separate passes that it replaces.
#include "ringshard/ops/head_gradients.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "ringshard/ops/linear.hpp"

using namespace ringshard;

namespace {

struct Shape {
    int64_t n, t, query_heads, key_heads, head_dim;
    int64_t turned = 0;  // elements of a head that turn; 0: all
    bool is_interleaved = false;
    bool is_heads_first = false;  // as cuDNN returns them
};

void check(const Shape& shape, at::ScalarType from, at::ScalarType type, bool has_rope) {
    const auto& [n, t, h, g, d, turned, is_interleaved, is_heads_first] = shape;
    constexpr int64_t first_row = 3;
    const int64_t distance = t + 2;
    const int64_t rows = first_row + n * distance;
    const auto gradient = [&](int64_t heads) {
        const at::TensorOptions options(from);
        return is_heads_first ? at::randn({n, heads, t, d}, options).transpose(1, 2)
                              : at::randn({n, t, heads, d}, options);
    };
    const at::Tensor dq = gradient(h);
    const at::Tensor dk = gradient(g);
    const at::Tensor dv = gradient(g);
    const int64_t half = (turned == 0 ? d : turned) / 2;
    const ops::RopeTable table{at::randn({rows, half}), at::randn({rows, half}), d, is_interleaved};
    const at::Tensor earlier = at::randn({rows, (h + 2 * g) * d}, at::TensorOptions(type));

    // Each pass by itself.
    at::Tensor expected = earlier.clone();
    at::Tensor expected_bias = at::ones({(h + 2 * g) * d});
    for (int64_t i = 0; i < n; ++i) {
        const at::Tensor part = expected.narrow(0, first_row + i * distance, t);
        part.copy_(at::cat({dq[i].flatten(1), dk[i].flatten(1), dv[i].flatten(1)}, 1));
        if (has_rope) {
            at::Tensor wide =
                at::cat({dq[i].flatten(1), dk[i].flatten(1), dv[i].flatten(1)}, 1).to(at::kFloat);
            ops::rope(wide, h + g,
                      {table.cosine.narrow(0, first_row + i * distance, t),
                       table.sine.narrow(0, first_row + i * distance, t), d, is_interleaved},
                      ops::Turn::backward);
            part.copy_(wide);
        }
        expected_bias += part.to(at::kFloat).sum(0);
    }

    const at::Tensor into = earlier.clone();
    const at::Tensor d_bias = at::ones({(h + 2 * g) * d});
    ops::put_head_gradients(
        {dq, dk, dv, into, first_row, distance, has_rope ? &table : nullptr, d_bias});
    const double tolerance = test::tolerance(type);
    BOOST_TEST(test::distance(into, expected) < tolerance);
    BOOST_TEST(test::distance(d_bias, expected_bias) < tolerance);
    if (!has_rope) BOOST_TEST(at::equal(into, expected));
    // Rows of nobody are as they were.
    BOOST_TEST(at::equal(into.narrow(0, 0, first_row), earlier.narrow(0, 0, first_row)));
    BOOST_TEST(at::equal(into.narrow(0, first_row + t, 2), earlier.narrow(0, first_row + t, 2)));
    const at::Tensor without_bias = earlier.clone();
    ops::put_head_gradients(
        {dq, dk, dv, without_bias, first_row, distance, has_rope ? &table : nullptr});
    BOOST_TEST(at::equal(without_bias, into));
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_pass_writes_and_sums_the_same) {
    at::manual_seed(3);
    const std::vector<Shape> shapes{{1, 37, 14, 2, 64},                // of Qwen2.5-0.5B
                                    {3, 5, 32, 8, 128},                // more pairs than threads
                                    {2, 9, 4, 2, 64, 0, false, true},  // as cuDNN returns them
                                    {2, 9, 4, 2, 16},
                                    {2, 9, 4, 2, 8},   // less than two packs
                                    {2, 9, 3, 1, 24},  // few packs, and none
                                    {2, 9, 4, 2, 64, 32},
                                    {2, 9, 4, 2, 64, 0, true}};  // not in one pass
    for (const Shape& shape : shapes)
        for (const auto& [from, type] :
             {std::pair{at::kFloat, at::kFloat}, std::pair{at::kBFloat16, at::kBFloat16},
              std::pair{at::kFloat, at::kBFloat16}})
            for (const bool has_rope : {false, true}) {
                BOOST_TEST_INFO_SCOPE(shape.query_heads << " heads of " << shape.head_dim << " "
                                                        << at::toString(from) << " "
                                                        << at::toString(type) << " " << has_rope);
                check(shape, from, type, has_rope);
            }
}
