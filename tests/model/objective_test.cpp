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

}  // namespace

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
