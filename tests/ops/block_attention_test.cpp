// Gradients in blocks against those of the plain formulas in fp64.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/ops/block_attention.hpp"

using namespace ringshard;

namespace {

struct Case {
    int64_t documents, queries, keys, query_heads, key_heads, width;
    bool diagonal;
};
const std::vector<Case> cases{{1, 1, 1, 1, 1, 8, true},       {3, 37, 37, 4, 2, 16, true},
                              {2, 128, 128, 2, 2, 64, true},  {1, 300, 300, 6, 2, 64, true},
                              {1, 130, 257, 4, 1, 32, false}, {2, 260, 90, 2, 1, 24, false}};

struct Problem {
    at::Tensor q, k, v, d_out;  // [n, t, heads, d], views of packed rows
    at::Tensor out, lse;
    at::Tensor dq, dk, dv;  // as fp64 gives them
};

// Heads [n, t, heads, d] of fp64 -> [n, query heads, t, d].
at::Tensor heads_first(const at::Tensor& rows, int64_t repeats) {
    return rows.to(at::kDouble).transpose(1, 2).repeat_interleave(repeats, 1);
}

Problem make_problem(const Case& c, at::ScalarType type) {
    at::manual_seed(3);
    // Heads lie in rows that are wider than they are, as in packed queries, keys and values.
    const auto rows = [&](int64_t tokens, int64_t heads) {
        return at::randn({c.documents, tokens, heads + 2, c.width}).to(type).narrow(2, 1, heads);
    };
    Problem p{rows(c.queries, c.query_heads),
              rows(c.keys, c.key_heads),
              rows(c.keys, c.key_heads),
              rows(c.queries, c.query_heads),
              {},
              {},
              {},
              {},
              {}};
    const int64_t group = c.query_heads / c.key_heads;
    const at::Tensor q = heads_first(p.q, 1);
    const at::Tensor k = heads_first(p.k, group);
    const at::Tensor v = heads_first(p.v, group);
    const at::Tensor d_out = heads_first(p.d_out, 1);
    const double scale = 1 / std::sqrt(static_cast<double>(c.width));
    at::Tensor scores = at::matmul(q, k.transpose(2, 3)) * scale;
    if (c.diagonal)
        scores = scores.masked_fill(at::ones({c.queries, c.keys}, at::kBool).tril().logical_not(),
                                    -std::numeric_limits<double>::infinity());
    const at::Tensor lse = at::logsumexp(scores, {3}, true);
    const at::Tensor weights = (scores - lse).exp();
    const at::Tensor out = at::matmul(weights, v);
    const at::Tensor d_weights = at::matmul(d_out, v.transpose(2, 3));
    const at::Tensor d_scores = weights * (d_weights - (d_out * out).sum({3}, true)) * scale;
    const auto of_key_heads = [&](const at::Tensor& of_query_heads) {
        return of_query_heads.unflatten(1, {c.key_heads, group}).sum(2).transpose(1, 2);
    };
    p.out = out.transpose(1, 2).to(type).contiguous();
    p.lse = lse.squeeze(3).transpose(1, 2).to(at::kFloat).contiguous();
    p.dq = at::matmul(d_scores, k).transpose(1, 2);
    p.dk = of_key_heads(at::matmul(d_scores.transpose(2, 3), q));
    p.dv = of_key_heads(at::matmul(weights.transpose(2, 3), d_out));
    return p;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
    return ((a.to(at::kDouble) - b).norm() / (b.norm() + 1e-30)).item<double>();
}

void check(const Case& c, at::ScalarType type, at::ScalarType into, bool adds, double tolerance) {
    BOOST_TEST_INFO_SCOPE(c.queries << " queries, " << c.keys << " keys, " << c.query_heads << ':'
                                    << c.key_heads << " heads of " << c.width << " in " << type
                                    << " into " << into << (adds ? ", added" : ""));
    const Problem p = make_problem(c, type);
    const double start = adds ? 1.0 : std::numeric_limits<double>::quiet_NaN();
    const auto place = [&](const at::Tensor& like) {
        return at::full({like.size(0), like.size(1), like.size(2) + 1, like.size(3)}, start,
                        at::TensorOptions(into))
            .narrow(2, 0, like.size(2));
    };
    const ops::AttentionInput input{p.q, p.k, p.v, c.diagonal};
    const ops::AttentionGradients gradients{place(p.dq), place(p.dk), place(p.dv), adds};
    if (!ops::suits_block_attention(input)) return;  // LibTorch without MKL
    ops::block_attention_backward(input, p.d_out, p.out, p.lse, gradients);
    const double before = adds ? start : 0.0;
    BOOST_TEST(distance(gradients.dv - before, p.dv) < tolerance);
    // With one key nothing depends on the scores: only rounding is left.
    if (c.keys == 1) return;
    BOOST_TEST(distance(gradients.dq - before, p.dq) < tolerance);
    BOOST_TEST(distance(gradients.dk - before, p.dk) < tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_are_those_of_the_formulas) {
    at::set_num_threads(1);
    for (const Case& c : cases) {
        check(c, at::kFloat, at::kFloat, false, 2e-6);
        check(c, at::kFloat, at::kFloat, true, 2e-6);
        check(c, at::kBFloat16, at::kBFloat16, false, 1e-2);
        check(c, at::kBFloat16, at::kFloat, true, 1e-2);
    }
}

BOOST_AUTO_TEST_CASE(the_same_bits_with_any_number_of_threads) {
    const Problem p = make_problem(cases[3], at::kBFloat16);
    const ops::AttentionInput input{p.q, p.k, p.v, true};
    std::vector<at::Tensor> dk;
    for (const int threads : {1, 2}) {
        at::set_num_threads(threads);
        if (!ops::suits_block_attention(input)) return;
        dk.push_back(at::empty(p.k.sizes(), p.k.options()));
        ops::block_attention_backward(
            input, p.d_out, p.out, p.lse,
            {at::empty(p.q.sizes(), p.q.options()), dk.back(), at::empty_like(dk.back()), false});
    }
    BOOST_TEST(dk[0].equal(dk[1]));
}
