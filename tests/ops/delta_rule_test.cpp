// Against the recurrence, token by token, in double precision, differentiated by autograd.
#include "ringshard/ops/delta_rule.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "ringshard/ops/causal_conv.hpp"
#include "ringshard/ops/delta_gates.hpp"

using namespace ringshard;
using ops::DeltaHeads;
using ops::StateRule;
using ops::Stretch;

namespace {

constexpr int64_t key_heads = 2;
constexpr int64_t value_heads = 4;
constexpr int64_t dk = 8;
constexpr int64_t dv = 6;
constexpr StateRule rules[] = {StateRule::delta, StateRule::additive, StateRule::delta_by_row};

DeltaHeads random_heads(int64_t tokens, StateRule rule, at::ScalarType type = at::kFloat) {
    const auto options = at::TensorOptions(type);
    return {
        at::randn({tokens, key_heads, dk}, options),
        at::randn({tokens, key_heads, dk}, options),
        at::randn({tokens, value_heads, dv}, options),
        at::rand({tokens, value_heads, rule == StateRule::delta_by_row ? dk : 1}).pow(4).mul_(-3),
        at::rand({tokens, value_heads}),
        rule};
}

DeltaHeads leaves(const DeltaHeads& heads) {
    return {test::leaf(heads.q),         test::leaf(heads.k),    test::leaf(heads.v),
            test::leaf(heads.log_decay), test::leaf(heads.beta), heads.rule};
}

DeltaHeads empty_gradients(const DeltaHeads& heads) {
    const auto like = [](const at::Tensor& x) { return at::full(x.sizes(), 1e9); };
    return {like(heads.q), like(heads.k), like(heads.v), like(heads.log_decay), like(heads.beta)};
}

// For each value head; of length 1 by the delta rule.
at::Tensor repeated(const at::Tensor& x, StateRule rule) {
    const at::Tensor repeated = x.repeat_interleave(value_heads / key_heads, 1);
    if (rule == StateRule::additive) return repeated;
    return repeated * (repeated.square().sum({2}, true) + 1e-6).rsqrt();
}

// One state after the other: [value heads, dk, dv].
struct Recurrence {
    at::Tensor out;
    at::Tensor state;
};
Recurrence by_definition(const DeltaHeads& heads, const Stretch& stretch, at::Tensor state) {
    const auto rows = [&](const at::Tensor& x) {
        return x.narrow(0, stretch.begin, stretch.length).unbind();
    };
    const bool is_delta = heads.rule != StateRule::additive;
    const double scale = is_delta ? 1 / std::sqrt(static_cast<double>(dk)) : 1;
    const auto q = rows(repeated(heads.q, heads.rule).unsqueeze(3) * scale);
    const auto k = rows(repeated(heads.k, heads.rule).unsqueeze(3));
    const auto v = rows(heads.v.unsqueeze(2));
    const auto decay = rows(heads.log_decay.exp().unsqueeze(3));
    const auto beta = rows(heads.beta.unsqueeze(2).unsqueeze(3));
    std::vector<at::Tensor> out;
    for (size_t t = 0; t < q.size(); ++t) {
        state = state * decay[t];
        const at::Tensor moved = is_delta ? v[t] - (state * k[t]).sum({1}, true) : v[t];
        state = state + k[t] * moved * beta[t];
        out.push_back((state * q[t]).sum({1}));
    }
    return {at::stack(out), state};
}

void check(const std::vector<Stretch>& stretches, StateRule rule, at::ScalarType type,
           double tolerance) {
    const int64_t tokens = stretches.back().begin + stretches.back().length;
    const DeltaHeads heads = random_heads(tokens, rule, type);
    const at::Tensor first =
        at::randn({static_cast<int64_t>(stretches.size()), value_heads, dk, dv});
    const at::Tensor d_out = at::randn({tokens, value_heads, dv});
    const at::Tensor d_state = at::randn(first.sizes());

    const DeltaHeads wide = leaves(heads);
    const at::Tensor wide_first = test::leaf(first);
    std::vector<at::Tensor> outs;
    std::vector<at::Tensor> states;
    for (size_t s = 0; s < stretches.size(); ++s) {
        const Recurrence of_stretch =
            by_definition(wide, stretches[s], wide_first[static_cast<int64_t>(s)]);
        outs.push_back(of_stretch.out);
        states.push_back(of_stretch.state);
    }
    const at::Tensor out = at::cat(outs);
    const at::Tensor state = at::stack(states);
    ((out * d_out).sum() + (state * d_state).sum()).backward();

    const at::Tensor last = at::empty(first.sizes());
    const at::Tensor between = ops::make_between(heads, stretches);
    BOOST_TEST(test::distance(ops::delta_rule(heads, stretches, {first, last, between}), out) <
               tolerance);
    BOOST_TEST(test::distance(last, state) < tolerance);
    const DeltaHeads d = empty_gradients(heads);
    const at::Tensor d_first = at::empty(first.sizes());
    ops::delta_rule_backward(heads, stretches, {first, {}, between}, d_out, d, {d_state, d_first});
    BOOST_TEST(test::distance(d_first, wide_first.grad()) < tolerance);
    BOOST_TEST(test::distance(d.q, wide.q.grad()) < tolerance);
    BOOST_TEST(test::distance(d.k, wide.k.grad()) < tolerance);
    BOOST_TEST(test::distance(d.v, wide.v.grad()) < tolerance);
    BOOST_TEST(test::distance(d.log_decay, wide.log_decay.grad()) < tolerance);
    BOOST_TEST(test::distance(d.beta, wide.beta.grad()) < tolerance);
}

}  // namespace

BOOST_DATA_TEST_CASE(one_stretch_is_the_recurrence,
                     boost::unit_test::data::make({1, 3, 63, 64, 65, 128, 1000, 4097}), length) {
    at::manual_seed(length);
    for (const StateRule rule : rules) check({{0, length}}, rule, at::kFloat, 5e-6);
}

BOOST_AUTO_TEST_CASE(several_stretches_are_each_the_recurrence) {
    at::manual_seed(5);
    for (const StateRule rule : rules) {
        check({{0, 1}, {1, 2}, {3, 64}, {67, 100}, {167, 3}}, rule, at::kFloat, 5e-6);
        check({{0, 128}, {128, 64}}, rule, at::kFloat, 5e-6);
        check({{0, 70}, {70, 20}}, rule, at::kBFloat16, 1e-2);
        check({{0, 1000}, {1000, 30}, {1030, 1100}, {2130, 2}}, rule, at::kFloat, 5e-6);
    }
}

// A decay that leaves nothing of a state within a few tokens, and none at all.
BOOST_DATA_TEST_CASE(decays_of_any_size_stay_finite, boost::unit_test::data::make({0, 1, 2}),
                     rule) {
    DeltaHeads heads = random_heads(130, rules[rule]);
    for (const double decay : {-200.0, -30.0, 0.0}) {
        heads.log_decay.fill_(decay);
        const std::vector<Stretch> all{{0, 130}};
        const DeltaHeads wide = leaves(heads);
        const Recurrence expected =
            by_definition(wide, all[0], at::zeros({value_heads, dk, dv}, at::kDouble));
        expected.out.sum().backward();
        const at::Tensor between = ops::make_between(heads, all);
        BOOST_TEST(test::distance(ops::delta_rule(heads, all, {{}, {}, between}), expected.out) <
                   5e-6);
        const DeltaHeads d = empty_gradients(heads);
        ops::delta_rule_backward(heads, all, {{}, {}, between}, at::ones(heads.v.sizes()), d);
        BOOST_TEST(test::distance(d.k, wide.k.grad()) < 5e-6);
        BOOST_TEST(d.log_decay.isfinite().all().item<bool>());
    }
}

// Each stretch maps the state in which it begins to that in which it ends, and the gradient back.
BOOST_DATA_TEST_CASE(maps_say_where_stretches_end, boost::unit_test::data::make({0, 1, 2}), rule) {
    at::manual_seed(9);
    const DeltaHeads heads = random_heads(300, rules[rule]);
    const std::vector<Stretch> stretches{{10, 100}, {110, 64}, {290, 5}};
    const at::Tensor first = at::randn({3, value_heads, dk, dv});
    const at::Tensor maps = ops::delta_rule_maps(heads, stretches);
    const at::Tensor d_out = at::randn(heads.v.sizes());
    const at::Tensor back = ops::delta_rule_backward_maps(heads, stretches, d_out);
    for (int64_t s = 0; s < 3; ++s) {
        const Stretch stretch = stretches[static_cast<size_t>(s)];
        const auto end_of = [&](const at::Tensor& map, const at::Tensor& state) {
            const bool is_additive = rules[rule] == StateRule::additive;
            const int64_t columns = is_additive ? 1 : dk;
            const at::Tensor transition = map[s].narrow(2, 0, columns);
            return (!is_additive ? at::matmul(transition, state) : transition * state) +
                   map[s].narrow(2, columns, dv);
        };
        const at::Tensor state = test::leaf(first[s]);
        const Recurrence expected = by_definition(leaves(heads), stretch, state);
        BOOST_TEST(test::distance(end_of(maps, first[s]), expected.state) < 5e-6);
        const at::Tensor d_end = at::randn({value_heads, dk, dv});
        ((expected.out * d_out.narrow(0, stretch.begin, stretch.length)).sum() +
         (expected.state * d_end).sum())
            .backward();
        BOOST_TEST(test::distance(end_of(back, d_end), state.grad()) < 5e-6);
    }
}

namespace {

at::Tensor conv_by_definition(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& before, bool has_silu) {
    const at::Tensor rows = at::cat({before, x});
    at::Tensor sum = at::zeros(x.sizes(), x.options()) + bias;
    for (int64_t tap = 0; tap < 4; ++tap)
        sum = sum + rows.narrow(0, tap, x.size(0)) * weight.select(2, tap).squeeze(1);
    return has_silu ? sum * sum.sigmoid() : sum;
}

void check_convolution(bool has_silu) {
    constexpr int64_t columns = 300;
    const std::vector<Stretch> stretches{{0, 1}, {1, 2}, {3, 3}, {6, 40}};
    for (const auto type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor wide_rows = at::randn({46, columns + 10}, type);
        const ops::CausalConv conv{at::randn({columns, 1, 4}, type), stretches,
                                   at::randn({4, 3, columns}, type), at::randn({columns}, type),
                                   has_silu};
        const at::Tensor x = test::leaf(wide_rows.narrow(1, 4, columns));
        const at::Tensor weight = test::leaf(conv.weight);
        const at::Tensor before = test::leaf(conv.before);
        const at::Tensor bias = test::leaf(conv.bias);
        std::vector<at::Tensor> parts;
        for (size_t s = 0; s < stretches.size(); ++s)
            parts.push_back(conv_by_definition(x.narrow(0, stretches[s].begin, stretches[s].length),
                                               weight, bias, before[static_cast<int64_t>(s)],
                                               has_silu));
        const at::Tensor dy = at::randn({46, columns});
        test::backward(at::cat(parts), dy);

        const at::Tensor rows = wide_rows.narrow(1, 4, columns);
        BOOST_TEST(test::distance(ops::causal_conv(rows, conv), at::cat(parts)) <
                   test::tolerance(type));
        const at::Tensor dx = at::full({46, columns}, 1e9);
        const at::Tensor d_weight = at::ones({columns, 1, 4});
        const at::Tensor d_bias = at::ones({columns});
        const at::Tensor d_before = ops::causal_conv_backward(dy, rows, conv, dx, d_weight, d_bias);
        BOOST_TEST(test::distance(dx, x.grad()) < test::tolerance(at::kFloat));
        BOOST_TEST(test::distance(d_before, before.grad()) < test::tolerance(at::kFloat));
        BOOST_TEST(test::distance(d_weight - 1, weight.grad()) < test::tolerance(at::kFloat));
        BOOST_TEST(test::distance(d_bias - 1, bias.grad()) < test::tolerance(at::kFloat));
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_convolution_sees_its_stretch_and_three_rows_before) {
    at::manual_seed(11);
    check_convolution(true);
    check_convolution(false);
}

BOOST_AUTO_TEST_CASE(gates_and_gated_norm_are_those_of_autograd) {
    at::manual_seed(13);
    for (const auto& [type, decays, opening, least] :
         {std::tuple(at::kFloat, 1, ops::Opening::silu, 0.0),
          {at::kFloat, 5, ops::Opening::sigmoid, 0.0},
          {at::kFloat, 5, ops::Opening::sigmoid, -5.0},
          {at::kBFloat16, 1, ops::Opening::silu, 0.0},
          {at::kBFloat16, 5, ops::Opening::sigmoid, -5.0}}) {
        const double tolerance = test::tolerance(type);
        const auto random = [type = type](at::IntArrayRef sizes) { return at::randn(sizes, type); };
        const at::Tensor a = random({50, 3, decays});
        const at::Tensor b = random({50, 3});
        const ops::DecayWeights weights{random({3}), random({3 * decays}), 0, least, 2 + least};
        const at::Tensor wide_a = test::leaf(a);
        const at::Tensor wide_b = test::leaf(b);
        const at::Tensor rate = test::leaf(weights.log_rate);
        const at::Tensor bias = test::leaf(weights.bias);
        const at::Tensor sum = wide_a + bias.view({3, decays});
        const at::Tensor rates = rate.exp().unsqueeze(1);
        const at::Tensor decay =
            least < 0 ? least * at::sigmoid(rates * sum) : -rates * at::softplus(sum);
        const at::Tensor beta = (2 + least) * wide_b.sigmoid();
        const ops::DeltaGates d{at::randn(a.sizes()), at::randn({50, 3})};
        ((decay * d.log_decay).sum() + (beta * d.beta).sum()).backward();
        const ops::DeltaGates gates = ops::delta_gates(a, b, weights);
        BOOST_TEST(test::distance(gates.log_decay, decay) < tolerance);
        BOOST_TEST(test::distance(gates.beta, beta) < tolerance);
        const at::Tensor da = at::empty(a.sizes());
        const at::Tensor db = at::empty({50, 3});
        const ops::DecayWeights d_weights{at::zeros({3}), at::zeros({3 * decays})};
        ops::delta_gates_backward(d, a, b, weights, da, db, d_weights);
        BOOST_TEST(test::distance(da, wide_a.grad()) < tolerance);
        BOOST_TEST(test::distance(db, wide_b.grad()) < tolerance);
        BOOST_TEST(test::distance(d_weights.log_rate, rate.grad()) < tolerance);
        BOOST_TEST(test::distance(d_weights.bias, bias.grad()) < tolerance);

        const at::Tensor x = random({50, 24});
        const at::Tensor gate = random({50, 24});
        const ops::GatedNorm norm{random({24}), 1e-6, opening};
        const at::Tensor wide_x = test::leaf(x);
        const at::Tensor wide_gate = test::leaf(gate);
        const at::Tensor weight = test::leaf(norm.weight);
        const at::Tensor opened =
            opening == ops::Opening::silu ? at::silu(wide_gate) : at::sigmoid(wide_gate);
        const at::Tensor y =
            wide_x * (wide_x.square().mean({1}, true) + 1e-6).rsqrt() * weight * opened;
        const at::Tensor dy = random({50, 24});
        test::backward(y, dy);
        BOOST_TEST(test::distance(ops::gated_norm(x, gate, norm), y) < tolerance);
        const at::Tensor d_gate = at::empty({50, 24});
        const at::Tensor d_weight = at::zeros({24});
        const at::Tensor dx = ops::gated_norm_backward(dy, x, gate, norm, d_gate, d_weight);
        BOOST_TEST(test::distance(dx, wide_x.grad()) < tolerance);
        BOOST_TEST(test::distance(d_gate, wide_gate.grad()) < tolerance);
        BOOST_TEST(test::distance(d_weight, weight.grad()) < tolerance);
    }
}

BOOST_AUTO_TEST_CASE(steps_and_the_norm_of_gated_rows_are_those_of_autograd) {
    at::manual_seed(14);
    for (const auto& [type, least] :
         {std::pair(at::kFloat, 0.0), {at::kFloat, 0.7}, {at::kBFloat16, 0.0}}) {
        const double tolerance = test::tolerance(type);
        const auto random = [type = type](at::IntArrayRef sizes) { return at::randn(sizes, type); };
        const at::Tensor a = random({50, 3, 1});
        const ops::DecayWeights weights{random({3}), random({3}), least};
        const at::Tensor wide_a = test::leaf(a);
        const at::Tensor rate = test::leaf(weights.log_rate);
        const at::Tensor bias = test::leaf(weights.bias);
        const at::Tensor step = at::softplus(wide_a.squeeze(2) + bias).clamp_min(least);
        const ops::DeltaGates d{at::randn({50, 3, 1}), at::randn({50, 3})};
        ((-rate.exp() * step * d.log_decay.squeeze(2)).sum() + (step * d.beta).sum()).backward();
        const ops::DeltaGates gates = ops::step_gates(a, weights);
        BOOST_TEST(test::distance(gates.log_decay.squeeze(2), -rate.exp() * step) < tolerance);
        BOOST_TEST(test::distance(gates.beta, step) < tolerance);
        const at::Tensor da = at::empty(a.sizes());
        const ops::DecayWeights d_weights{at::zeros({3}), at::zeros({3})};
        ops::step_gates_backward(d, a, weights, da, d_weights);
        BOOST_TEST(test::distance(da, wide_a.grad()) < tolerance);
        BOOST_TEST(test::distance(d_weights.log_rate, rate.grad()) < tolerance);
        BOOST_TEST(test::distance(d_weights.bias, bias.grad()) < tolerance);

        const at::Tensor x = random({50, 24});
        const at::Tensor gate = random({50, 24});
        const ops::NormOfGated norm{random({24}), 1e-6, 3};
        const at::Tensor wide_x = test::leaf(x);
        const at::Tensor wide_gate = test::leaf(gate);
        const at::Tensor weight = test::leaf(norm.weight);
        const at::Tensor gated = (wide_x * at::silu(wide_gate)).view({50, 3, 8});
        const at::Tensor y =
            (gated * (gated.square().mean({2}, true) + 1e-6).rsqrt()).flatten(1) * weight;
        const at::Tensor dy = random({50, 24});
        test::backward(y, dy);
        BOOST_TEST(test::distance(ops::norm_of_gated(x, gate, norm), y) < tolerance);
        const at::Tensor d_gate = at::empty({50, 24});
        const at::Tensor d_weight = at::zeros({24});
        const at::Tensor dx = ops::norm_of_gated_backward(dy, x, gate, norm, d_gate, d_weight);
        BOOST_TEST(test::distance(dx, wide_x.grad()) < tolerance);
        BOOST_TEST(test::distance(d_gate, wide_gate.grad()) < tolerance);
        BOOST_TEST(test::distance(d_weight, weight.grad()) < tolerance);
    }
}
