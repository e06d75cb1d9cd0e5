// Every form of the loss against autograd in double precision.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/ops/cross_entropy.hpp"

using namespace ringshard;

namespace {

constexpr double scale = 0.25;

double distance(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor wide = b.to(at::kDouble);
    return ((a.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

struct Reference {
    double loss;
    at::Tensor gradient;
};

// The plain form: written as it is defined, differentiated by autograd.
Reference plain(const at::Tensor& logits, const ops::Targets& targets, const ops::LossForm& form) {
    const at::Tensor x = logits.to(at::kDouble).set_requires_grad(true);
    const at::Tensor surprise = -at::log_softmax(x, 1);
    at::Tensor loss = surprise.gather(1, targets.tokens.unsqueeze(1)).squeeze(1);
    if (form.times_probability) loss = loss * (-loss).exp().detach();
    loss = (1 - form.smoothing) * loss + form.smoothing * surprise.mean(1);
    if (targets.weights.defined()) loss = loss * targets.weights.to(at::kDouble);
    (loss.sum() * scale).backward();
    return {loss.sum().item<double>(), x.grad()};
}

void check(int64_t tokens, int64_t vocabulary, const ops::LossForm& form, bool is_weighted) {
    const at::Tensor logits = at::randn({tokens, vocabulary}) * 3;
    const ops::Targets targets{at::randint(vocabulary, {tokens}, at::TensorOptions(at::kLong)),
                               is_weighted ? at::rand({tokens}) * 2 : at::Tensor()};
    const Reference reference = plain(logits, targets, form);
    const double tolerance = 1e-5 * std::abs(reference.loss);
    const at::Tensor token_stats = at::empty({tokens, ops::stats_per_token});
    ops::cross_entropy_value(logits, targets, form, token_stats);
    const ops::TokenSums value = ops::add_up(token_stats);
    BOOST_TEST(std::abs(value.loss - reference.loss) < tolerance);
    ops::cross_entropy(logits, targets, scale, form, token_stats);
    const ops::TokenSums sums = ops::add_up(token_stats);
    BOOST_TEST(sums.loss == value.loss);
    BOOST_TEST(sums.num_targets == tokens);
    BOOST_TEST(distance(logits, reference.gradient) < 2e-6);
}

void check_every_form(int64_t tokens, int64_t vocabulary) {
    at::manual_seed(5);
    const ops::LossForm forms[] = {
        {}, {.times_probability = true}, {.smoothing = 0.1}, {.smoothing = 1.0}};
    for (const ops::LossForm& form : forms) {
        BOOST_TEST_INFO_SCOPE(form.times_probability << " " << form.smoothing);
        for (const bool is_weighted : {false, true}) check(tokens, vocabulary, form, is_weighted);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(loss_and_gradient_are_those_of_autograd) {
    check_every_form(9, 2);
    check_every_form(33, 517);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_of_tens_of_thousands) { check_every_form(4, 32003); }

// Rows as a trained model makes them: a few likely tokens and a long tail.
BOOST_AUTO_TEST_CASE(log_probabilities_of_large_vocabularies_are_those_of_double_precision) {
    at::manual_seed(7);
    for (const int64_t vocabulary : {32000, 49152, 151936, 262144})
        for (const double spread : {1.0, 2.5, 4.0}) {
            BOOST_TEST_INFO_SCOPE(vocabulary << " entries, spread " << spread);
            const at::Tensor logits = at::randn({16, vocabulary}) * spread - 3;
            const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), 1);
            const at::Tensor tokens = at::multinomial(log_p.exp(), 1);
            const at::Tensor token_stats = at::empty({16, ops::stats_per_token});
            ops::cross_entropy_value(logits, {tokens.squeeze(1)}, {}, token_stats);
            const auto off = [&](int64_t column, const at::Tensor& expected) {
                return (token_stats.select(1, column).to(at::kDouble) - expected).abs();
            };
            const at::Tensor of_loss = off(0, -log_p.gather(1, tokens).squeeze(1));
            BOOST_TEST(of_loss.max().item<double>() < 1e-6);
            const at::Tensor of_entropy = off(1, -(log_p.exp() * log_p).sum(1));
            BOOST_TEST(of_entropy.max().item<double>() < 1e-6);
        }
}
