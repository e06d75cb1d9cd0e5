// Against autograd in double precision, whole and in blocks.
#include "ringshard/ops/plain_attention.hpp"

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"

using namespace ringshard;

namespace {

at::Tensor by_definition(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const ops::Band& band, const ops::ScoreForm& form) {
    const int64_t repeats = q.size(2) / k.size(2);
    const auto heads_first = [](const at::Tensor& rows) { return rows.transpose(1, 2); };
    at::Tensor scores =
        at::matmul(heads_first(q), heads_first(k.repeat_interleave(repeats, 2)).transpose(2, 3)) *
        form.scale_of(q.size(3));
    if (form.cap > 0) scores = form.cap * at::tanh(scores / form.cap);
    const at::Tensor all = at::ones({q.size(1), k.size(1)}, at::kBool);
    scores = scores.masked_fill(all.triu(band.ahead + 1).logical_or(all.tril(-band.back - 1)),
                                -std::numeric_limits<double>::infinity());
    return heads_first(
        at::matmul(at::softmax(scores, -1), heads_first(v.repeat_interleave(repeats, 2))));
}

struct Shape {
    int64_t documents, queries, keys, query_heads, key_heads, head_dim;
    ops::Band band;
    ops::ScoreForm form{};
};

void check(const Shape& shape, at::ScalarType type) {
    const auto random = [&](int64_t tokens, int64_t heads) {
        return at::randn({shape.documents, tokens, heads, shape.head_dim}, type);
    };
    const ops::PlainAttention input{random(shape.queries, shape.query_heads),
                                    random(shape.keys, shape.key_heads),
                                    random(shape.keys, shape.key_heads), shape.band, shape.form};
    const at::Tensor d_out = random(shape.queries, shape.query_heads);
    const at::Tensor q = test::leaf(input.q);
    const at::Tensor k = test::leaf(input.k);
    const at::Tensor v = test::leaf(input.v);
    const at::Tensor expected = by_definition(q, k, v, shape.band, shape.form);
    test::backward(expected, d_out);

    const ops::SeenKeys seen = ops::plain_attention(input);
    const ops::PlainGradients gradients = ops::plain_attention_backward(input, d_out, seen);
    const double tolerance = test::tolerance(type);
    BOOST_TEST(test::distance(seen.out, expected) < tolerance);
    BOOST_TEST(test::distance(gradients.dq, q.grad()) < tolerance);
    BOOST_TEST(test::distance(gradients.dk, k.grad()) < tolerance);
    BOOST_TEST(test::distance(gradients.dv, v.grad()) < tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(is_that_of_autograd) {
    at::manual_seed(3);
    for (const auto type : {at::kFloat, at::kBFloat16})
        for (const Shape& shape : {Shape{2, 17, 17, 4, 2, 8, ops::causal},
                                   {1, 9, 31, 6, 1, 16, ops::every_key},
                                   {3, 2, 2, 2, 2, 4, ops::causal},
                                   {1, 20, 31, 2, 1, 16, {15, ops::Band::unlimited}},
                                   {1, 20, 31, 2, 1, 16, {3, 2}},
                                   {1, 20, 31, 2, 1, 16, {3, 2}, {.scale = 0.4, .cap = 1.5}},
                                   {2, 17, 17, 4, 2, 8, ops::causal, {.cap = 2}},
                                   // In blocks of queries.
                                   {1, 1500, 1500, 2, 1, 16, ops::causal},
                                   {1, 1500, 1500, 2, 1, 16, {99, 0}}}) {
            BOOST_TEST_INFO_SCOPE(shape.queries << " x " << shape.keys << " "
                                                << at::toString(type));
            check(shape, type);
        }
}
