// Attention in blocks and its gradients against the plain formulas in fp64, by every kind of
// kernels that this processor can run.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include <functional>

#include "block_attention_cpu.hpp"

using namespace ringshard;

namespace {

struct Case {
    int64_t documents, queries, keys, query_heads, key_heads, width;
    ops::Band band;
    ops::ScoreForm form{};
};
constexpr int64_t unlimited = ops::Band::unlimited;
const std::vector<Case> cases{{1, 1, 1, 1, 1, 8, ops::causal},
                              {3, 37, 37, 4, 2, 16, ops::causal},
                              {2, 128, 128, 2, 2, 64, ops::causal},
                              {1, 300, 300, 6, 2, 64, ops::causal},
                              {1, 130, 257, 4, 1, 32, ops::every_key},
                              {2, 260, 90, 2, 1, 24, ops::every_key},
                              {1, 1, 129, 3, 1, 80, ops::every_key},
                              {1, 129, 129, 5, 1, 96, ops::causal},
                              {2, 71, 71, 2, 2, 256, ops::causal},
                              {1, 65, 63, 1, 1, 33, ops::every_key},
                              // Windows: of the same tokens, and of queries behind the keys.
                              {1, 300, 300, 4, 2, 64, {0, 0}},
                              {2, 300, 300, 4, 2, 32, {1, 0}},
                              {1, 321, 321, 6, 2, 64, {63, 0}},
                              {1, 200, 200, 2, 1, 24, {64, 0}},
                              {2, 517, 517, 3, 1, 16, {130, 0}},
                              {1, 90, 100, 4, 2, 32, {0, unlimited}},
                              {1, 150, 260, 2, 1, 64, {70, unlimited}},
                              {1, 150, 260, 2, 1, 64, {70, 5}},
                              {1, 140, 139, 5, 1, 48, {1, unlimited}},
                              // Scales and caps of scores.
                              {1, 131, 131, 4, 2, 32, ops::causal, {.scale = 0.4}},
                              {1, 131, 131, 4, 2, 64, ops::causal, {.cap = 1.5}},
                              {2, 70, 133, 3, 1, 24, ops::every_key, {.scale = 0.3, .cap = 5}},
                              {1, 300, 300, 2, 1, 256, {63, 0}, {.cap = 50}}};

struct Problem {
    at::Tensor q, k, v, d_out;  // [n, t, heads, d], views of packed rows
    at::Tensor exact_out;       // as fp64 gives it
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
              {},
              {}};
    const int64_t group = c.query_heads / c.key_heads;
    const at::Tensor q = heads_first(p.q, 1);
    const at::Tensor k = heads_first(p.k, group);
    const at::Tensor v = heads_first(p.v, group);
    const at::Tensor d_out = heads_first(p.d_out, 1);
    const double scale = c.form.scale_of(c.width);
    at::Tensor scores = at::matmul(q, k.transpose(2, 3)) * scale;
    at::Tensor slope = at::ones_like(scores);
    if (c.form.cap > 0) {
        const at::Tensor part = at::tanh(scores / c.form.cap);
        slope = 1 - part.square();
        scores = c.form.cap * part;
    }
    const at::Tensor all = at::ones({c.queries, c.keys}, at::kBool);
    const at::Tensor unseen = all.triu(c.band.ahead + 1).logical_or(all.tril(-c.band.back - 1));
    scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
    const at::Tensor lse = at::logsumexp(scores, {3}, true);
    const at::Tensor weights = (scores - lse).exp();
    const at::Tensor out = at::matmul(weights, v);
    const at::Tensor d_weights = at::matmul(d_out, v.transpose(2, 3));
    const at::Tensor d_scores =
        weights * (d_weights - (d_out * out).sum({3}, true)) * scale * slope;
    const auto of_key_heads = [&](const at::Tensor& of_query_heads) {
        return of_query_heads.unflatten(1, {c.key_heads, group}).sum(2).transpose(1, 2);
    };
    p.exact_out = out.transpose(1, 2);
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

// Runs one kind of kernels.
struct Way {
    const char* name;
    std::function<void(const ops::AttentionInput&, const at::Tensor&, const at::Tensor&)> forward;
    std::function<void(const ops::AttentionInput&, const Problem&, const ops::AttentionGradients&)>
        backward;
};

Way way_of(const ops::Kernels& kernels) {
    return {kernels.name,
            [&kernels](const auto& input, const auto& out, const auto& lse) {
                ops::attend_with(kernels.attention, input, out, lse);
            },
            [&kernels](const auto& input, const Problem& p, const auto& gradients) {
                ops::attend_backward_with(kernels.attention, input, p.d_out, p.out, p.lse,
                                          gradients);
            }};
}

std::vector<Way> ways_here() {
    std::vector<Way> ways;
    for (int i = 0; const auto* kernels = ops::kernels_here(i); ++i)
        ways.push_back(way_of(*kernels));
    return ways;
}

struct Types {
    at::ScalarType heads;
    at::ScalarType results;
    bool adds;
    double tolerance;
};
const std::vector<Types> all_types{{at::kFloat, at::kFloat, false, 2e-6},
                                   {at::kFloat, at::kFloat, true, 2e-6},
                                   {at::kBFloat16, at::kBFloat16, false, 1e-2},
                                   {at::kBFloat16, at::kFloat, true, 1e-2}};

// Rows for results inside wider ones.
at::Tensor place(const at::Tensor& like, at::ScalarType type, double start) {
    return at::full({like.size(0), like.size(1), like.size(2) + 1, like.size(3)}, start,
                    at::TensorOptions(type))
        .narrow(2, 0, like.size(2));
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

void check_forward(const Case& c, const Problem& p, const Types& types, const Way& way) {
    const at::Tensor out = place(p.out, types.results, not_a_number);
    const at::Tensor lse = at::full_like(p.lse, not_a_number);
    way.forward({p.q, p.k, p.v, c.band, c.form}, out, lse);
    BOOST_TEST(distance(out, p.exact_out) < types.tolerance);
    BOOST_TEST((lse - p.lse).abs().max().item<double>() < 1e-5);
}

void check_backward(const Case& c, const Problem& p, const Types& types, const Way& way) {
    const double before = types.adds ? 0.25 : 0.0;  // about as large as the gradients
    const auto start = [&](const at::Tensor& like) {
        return place(like, types.results, types.adds ? before : not_a_number);
    };
    const ops::AttentionGradients gradients{start(p.dq), start(p.dk), start(p.dv), types.adds};
    way.backward({p.q, p.k, p.v, c.band, c.form}, p, gradients);
    BOOST_TEST(distance(gradients.dv - before, p.dv) < types.tolerance);
    // With one key nothing depends on the scores: only rounding is left.
    if (c.keys == 1 || c.band == ops::Band{0, 0}) return;
    BOOST_TEST(distance(gradients.dq - before, p.dq) < types.tolerance);
    BOOST_TEST(distance(gradients.dk - before, p.dk) < types.tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(results_and_gradients_are_those_of_the_formulas) {
    at::set_num_threads(1);
    for (const Case& c : cases)
        for (const Types& types : all_types) {
            const Problem p = make_problem(c, types.heads);
            for (const Way& way : ways_here()) {
                BOOST_TEST_INFO_SCOPE(way.name << ": " << c.queries << " queries, " << c.keys
                                               << " keys, " << c.query_heads << ':' << c.key_heads
                                               << " heads of " << c.width << " in " << types.heads
                                               << " into " << types.results
                                               << (types.adds ? ", added" : ""));
                check_forward(c, p, types, way);
                check_backward(c, p, types, way);
            }
        }
}

// A score that the band hides may be anything.
BOOST_AUTO_TEST_CASE(hidden_keys_leave_no_trace) {
    at::set_num_threads(1);
    const Case c{1, 140, 140, 2, 1, 16, {20, 0}};
    for (const Types& types : all_types) {
        if (types.adds) continue;
        Problem p = make_problem(c, types.heads);
        for (const Way& way : ways_here()) {
            BOOST_TEST_INFO_SCOPE(way.name << ' ' << types.heads);
            // Of the queries that see none of the changed keys.
            const auto unmoved_rows = [&] {
                const at::Tensor out = place(p.out, types.results, not_a_number);
                const at::Tensor dq = place(p.dq, types.results, not_a_number);
                way.forward({p.q, p.k, p.v, c.band, c.form}, out, at::empty_like(p.lse));
                way.backward({p.q, p.k, p.v, c.band, c.form}, p,
                             {dq, place(p.dk, types.results, not_a_number),
                              place(p.dv, types.results, not_a_number), false});
                const auto rows_of = [](const at::Tensor& all) {
                    return at::cat({all.narrow(1, 0, 77), all.narrow(1, 120, 20)}, 1);
                };
                return at::cat({rows_of(out), rows_of(dq)}, 2);
            };
            const at::Tensor before = unmoved_rows();
            // Scores that overflow.
            const at::Tensor changed = p.k.narrow(1, 77, 23);
            const at::Tensor kept = changed.clone();
            changed.fill_(1e30);
            BOOST_TEST(unmoved_rows().equal(before));
            changed.copy_(kept);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_same_bits_with_any_number_of_threads) {
    const Problem p = make_problem(cases[3], at::kBFloat16);
    const ops::AttentionInput input{p.q, p.k, p.v, ops::causal};
    std::vector<at::Tensor> out;
    std::vector<at::Tensor> dk;
    for (const int threads : {1, 2}) {
        at::set_num_threads(threads);
        BOOST_REQUIRE(ops::suits_block_attention_backward(input));
        dk.push_back(at::empty(p.k.sizes(), p.k.options()));
        ops::block_attention_backward(
            input, p.d_out, p.out, p.lse,
            {at::empty(p.q.sizes(), p.q.options()), dk.back(), at::empty_like(dk.back()), false});
        out.push_back(at::zeros(p.q.sizes(), p.q.options()));
        ops::block_attention(input, out.back(), at::empty_like(p.lse));
    }
    BOOST_TEST(dk[0].equal(dk[1]));
    BOOST_TEST(out[0].equal(out[1]));
}
