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

namespace {

// The loss of each token by the settings, without an anchor.
at::Tensor own_loss(const config::TrainingSettings& settings, const at::Tensor& x,
                    const ops::Targets& targets) {
    if (settings.loss_type == config::LossType::eaft) {
        const at::Tensor log_p = at::log_softmax(std::get<0>(at::topk(x.detach(), 20)), 1);
        const at::Tensor entropy = -(log_p.exp() * log_p).sum(1);
        return (entropy / 3).pow(settings.eaft_alpha) * data_loss(x, targets, false);
    }
    const double smoothing = settings.label_smoothing_factor;
    return (1 - smoothing) * data_loss(x, targets, settings.loss_type == config::LossType::dft) -
           smoothing * at::log_softmax(x, 1).mean(1);
}

// `rows`: those with stored numbers.
Reference anchored(const config::TrainingSettings& settings, const at::Tensor& logits,
                   const model::ObjectiveTargets& targets, const at::Tensor& rows) {
    return differentiate(logits, [&](const at::Tensor& x) {
        const at::Tensor log_p = at::log_softmax(x, 1).index_select(0, rows);
        const at::Tensor from_base =
            divergence(with_tail(log_p.gather(1, targets.stored_tokens)),
                       with_tail(targets.stored_log_probs.to(at::kDouble)), 0);
        const at::Tensor loss = own_loss(settings, x, targets.data);
        return weighted(loss.index_copy(0, rows, settings.anchor_weight * from_base), targets.data);
    });
}

// Every `step`th token has stored numbers; 0: none has.
void check_anchor(const config::TrainingSettings& settings, int64_t step, bool is_weighted) {
    BOOST_TEST_INFO_SCOPE("weight " << settings.anchor_weight << ", every " << step << ", loss "
                                    << static_cast<int>(settings.loss_type));
    constexpr int64_t n = 33;
    const at::Tensor logits = at::randn({n, 517}) * 3;
    model::ObjectiveTargets targets = targets_of(logits, 8, 1, is_weighted);
    const auto longs = at::TensorOptions(at::kLong);
    const at::Tensor rows = step == 0 ? at::empty({0}, longs) : at::arange(0, n, step, longs);
    targets.stored_tokens = targets.stored_tokens.index_select(0, rows);
    targets.stored_log_probs = targets.stored_log_probs.index_select(0, rows);
    if (step != 1) targets.stored_rows = rows;
    const Reference reference = anchored(settings, logits, targets, rows);
    const auto objective = model::objective_of(settings);
    const at::Tensor stats = at::empty({n, objective->numbers_per_token()});
    const at::Tensor d_logits = logits.clone();
    objective->learn(d_logits, targets, scale, stats);
    if (reference.loss.norm().item<double>() > 0) {
        BOOST_TEST(distance(stats.select(1, 0), reference.loss) < 1e-6);
        BOOST_TEST(distance(d_logits, reference.gradient) < 1e-6);
    }
    const at::Tensor plain = at::empty({n, ops::stats_per_token});
    ops::cross_entropy_value(logits, {targets.data.tokens}, {}, plain);
    BOOST_TEST(distance(stats.narrow(1, 1, 2), plain.narrow(1, 1, 2)) < 1e-6);

    // The sums of the further numbers are those of the two kinds of tokens.
    const at::Tensor weights =
        is_weighted ? targets.data.weights.to(at::kDouble) : at::ones({n}, at::kDouble);
    const at::Tensor is_anchored = at::zeros({n}, at::kDouble).index_fill(0, rows, 1);
    const at::Tensor sums = stats.to(at::kDouble).sum(0);
    const auto near = [&](int64_t number, const at::Tensor& expected) {
        const double value = expected.item<double>();
        BOOST_TEST(std::abs(sums[number].item<double>() - value) <= 1e-6 * std::abs(value));
    };
    near(4, (weights * is_anchored).sum());
    near(6, (weights * (1 - is_anchored)).sum());
    near(5, (reference.loss * (1 - is_anchored)).sum());
    if (settings.anchor_weight > 0)
        near(3, (reference.loss * is_anchored).sum() / settings.anchor_weight);
    else
        BOOST_TEST((step == 0 || sums[3].item<double>() > 0));
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_an_anchor_have_the_divergence_and_others_their_own_loss) {
    at::manual_seed(14);
    for (const double weight : {1.0, 0.3, 0.0})
        for (const int64_t step : {0, 1, 3})
            for (const int form : {0, 1, 2, 3}) {
                config::TrainingSettings settings;
                settings.anchor = "scores";
                settings.anchor_weight = weight;
                if (form == 1) settings.loss_type = config::LossType::dft;
                if (form == 2) settings.loss_type = config::LossType::eaft;
                if (form == 3) settings.label_smoothing_factor = 0.1;
                check_anchor(settings, step, form % 2 == 0);
            }
}

BOOST_AUTO_TEST_CASE(an_anchor_does_not_move_the_gradients_of_other_tokens) {
    at::manual_seed(15);
    config::TrainingSettings settings;
    const at::Tensor logits = at::randn({33, 517}) * 3;
    model::ObjectiveTargets targets = targets_of(logits, 8, 1, false);
    const at::Tensor alone = logits.clone();
    const at::Tensor stats = at::empty({33, ops::stats_per_token});
    model::objective_of(settings)->learn(alone, {targets.data}, scale, stats);
    settings.anchor = "scores";
    targets.stored_rows = at::arange(0, 33, 2, at::TensorOptions(at::kLong));
    targets.stored_tokens = targets.stored_tokens.index_select(0, targets.stored_rows);
    targets.stored_log_probs = targets.stored_log_probs.index_select(0, targets.stored_rows);
    const auto objective = model::objective_of(settings);
    const at::Tensor beside = logits.clone();
    objective->learn(beside, targets, scale, at::empty({33, objective->numbers_per_token()}));
    const at::Tensor others = at::arange(1, 33, 2, at::TensorOptions(at::kLong));
    BOOST_TEST(at::equal(beside.index_select(0, others), alone.index_select(0, others)));
}
