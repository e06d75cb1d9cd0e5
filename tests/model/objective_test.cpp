// Objectives against their definitions, written plainly and differentiated by autograd in double
// precision.
#include "ringshard/model/objective.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/config/training_settings.hpp"

using namespace ringshard;

namespace {

constexpr double scale = 0.25;

struct Reference {
    at::Tensor loss;  // of each token
    at::Tensor gradient;
};

double distance(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor wide = b.to(at::kDouble);
    return ((a.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

at::Tensor with_tail(const at::Tensor& log_p) {
    const at::Tensor mass = log_p.exp().sum(1, true).clamp_max(1 - 1e-7);
    return at::cat({log_p, at::log1p(-mass)}, 1);
}

at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double beta) {
    const auto kl = [](const at::Tensor& p, const at::Tensor& q) {
        return (p.exp() * (p - q)).sum(1);
    };
    if (beta == 0) return kl(teacher, student);
    if (beta == 1) return kl(student, teacher);
    const at::Tensor mixture = ((1 - beta) * student.exp() + beta * teacher.exp()).log();
    return beta * kl(teacher, mixture) + (1 - beta) * kl(student, mixture);
}

at::Tensor data_loss(const at::Tensor& logits, const ops::Targets& targets, bool is_dft) {
    const at::Tensor loss =
        -at::log_softmax(logits, 1).gather(1, targets.tokens.unsqueeze(1)).squeeze(1);
    return is_dft ? loss * (-loss).exp().detach() : loss;
}

at::Tensor weighted(const at::Tensor& loss, const ops::Targets& targets) {
    return targets.weights.defined() ? loss * targets.weights.to(at::kDouble) : loss;
}

Reference differentiate(const at::Tensor& logits, const auto& loss_of) {
    const at::Tensor x = logits.to(at::kDouble).set_requires_grad(true);
    const at::Tensor loss = loss_of(x);
    (loss.sum() * scale).backward();
    return {loss.detach(), x.grad()};
}

Reference distillation(const config::TrainingSettings& settings, const at::Tensor& logits,
                       const model::ObjectiveTargets& targets) {
    return differentiate(logits, [&](const at::Tensor& x) {
        const at::Tensor log_p =
            at::log_softmax(x / settings.temperature, 1).gather(1, targets.stored_tokens);
        const at::Tensor stored = targets.stored_log_probs.to(at::kDouble);
        const auto buckets = [&](const at::Tensor& some) {
            return settings.loss_add_tail ? with_tail(some) : at::log_softmax(some, 1);
        };
        const at::Tensor loss = divergence(buckets(log_p), buckets(stored), settings.beta);
        return weighted(
            loss + settings.sft_alpha *
                       data_loss(x, targets.data, settings.loss_type == config::LossType::dft),
            targets.data);
    });
}

// Numbers of a teacher that is near the student, as score writes them.
model::ObjectiveTargets targets_of(const at::Tensor& logits, int64_t k, double temperature,
                                   bool is_weighted) {
    const int64_t n = logits.size(0);
    const at::Tensor teacher =
        at::log_softmax((logits + at::randn_like(logits)).to(at::kDouble) / temperature, 1);
    const auto [log_p, tokens] = at::topk(teacher, k);
    const at::Tensor next = at::randint(logits.size(1), {n}, at::TensorOptions(at::kLong));
    next.narrow(0, 0, n / 2).copy_(tokens.select(1, k - 1).narrow(0, 0, n / 2));
    return {{next, is_weighted ? at::rand({n}) * 2 : at::Tensor()}, tokens, log_p.to(at::kFloat)};
}

void check(const config::TrainingSettings& settings, int64_t k, int64_t vocabulary,
           bool is_weighted) {
    BOOST_TEST_INFO_SCOPE("beta " << settings.beta << ", temperature " << settings.temperature
                                  << ", tail " << settings.loss_add_tail << ", data "
                                  << settings.sft_alpha << ", k " << k);
    const at::Tensor logits = at::randn({33, vocabulary}) * 3;
    const model::ObjectiveTargets targets =
        targets_of(logits, k, settings.temperature, is_weighted);
    const Reference reference = distillation(settings, logits, targets);
    const auto objective = model::objective_of(settings);
    const at::Tensor stats = at::empty({33, objective->numbers_per_token()});
    const at::Tensor d_logits = logits.clone();
    objective->learn(d_logits, targets, scale, stats);
    BOOST_TEST(distance(stats.select(1, 0), reference.loss) < 1e-6);
    BOOST_TEST(distance(d_logits, reference.gradient) < 1e-6);
    const at::Tensor data =
        weighted(data_loss(logits.to(at::kDouble), targets.data, false), targets.data);
    BOOST_TEST(distance(stats.select(1, 4), data) < 1e-6);

    const at::Tensor narrow = logits.to(at::kBFloat16);
    const Reference of_narrow = distillation(settings, narrow, targets);
    objective->learn(narrow, targets, scale, stats);
    // Temperatures round the logits of the student once more.
    if (settings.temperature == 1) BOOST_TEST(distance(narrow, of_narrow.gradient) < 3e-3);
}

}  // namespace

BOOST_AUTO_TEST_CASE(divergences_and_their_gradients_are_those_of_autograd) {
    at::manual_seed(11);
    for (const double beta : {0.0, 0.3, 0.5, 1.0})
        for (const double temperature : {1.0, 2.0})
            for (const double of_data : {0.0, 0.7})
                for (const bool has_tail : {true, false}) {
                    config::TrainingSettings settings;
                    settings.teacher_scores = "scores";
                    settings.beta = beta;
                    settings.temperature = temperature;
                    settings.sft_alpha = of_data;
                    settings.loss_add_tail = has_tail;
                    settings.loss_type =
                        beta == 0.5 ? config::LossType::dft : config::LossType::nll;
                    check(settings, 8, 517, beta > 0);
                }
}

BOOST_AUTO_TEST_CASE(a_teacher_may_have_given_all_tokens_or_one) {
    at::manual_seed(12);
    config::TrainingSettings settings;
    settings.teacher_scores = "scores";
    settings.beta = 0.5;
    check(settings, 1, 517, false);
    settings.loss_add_tail = false;
    check(settings, 41, 41, true);
}

BOOST_AUTO_TEST_CASE(entropy_adaptive_loss_is_that_of_its_definition) {
    at::manual_seed(13);
    for (const double alpha : {1.0, 0.5}) {
        const at::Tensor logits = at::randn({17, 211}) * 2;
        const ops::Targets targets{at::randint(211, {17}, at::TensorOptions(at::kLong)),
                                   alpha == 1 ? at::rand({17}) : at::Tensor()};
        const Reference reference = differentiate(logits, [&](const at::Tensor& x) {
            const at::Tensor largest = std::get<0>(at::topk(x.detach(), 20));
            const at::Tensor p = at::softmax(largest, 1);
            const at::Tensor entropy = -(p * p.log()).sum(1);
            return weighted((entropy / 3).pow(alpha) * data_loss(x, targets, false), targets);
        });
        config::TrainingSettings settings;
        settings.loss_type = config::LossType::eaft;
        settings.eaft_alpha = alpha;
        const auto objective = model::objective_of(settings);
        const at::Tensor stats = at::empty({17, objective->numbers_per_token()});
        objective->evaluate(logits, targets, stats);
        BOOST_TEST(distance(stats.select(1, 0), reference.loss) < 1e-6);
        objective->learn(logits, {targets}, scale, stats);
        BOOST_TEST(distance(stats.select(1, 0), reference.loss) < 1e-6);
        BOOST_TEST(distance(logits, reference.gradient) < 1e-6);
    }
}
