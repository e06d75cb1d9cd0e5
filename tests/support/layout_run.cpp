#include "layout_run.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "golden.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/evaluator.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::test {

Outcome train(const comm::Group& group, const LayoutRun& layout, const data::Rows& rows) {
    config::Config config;
    config.training.learning_rate = layout.learning_rate;
    config.training.adam_epsilon = layout.adam_epsilon;
    config.training.weight_decay = 0.01;
    config.training.max_steps = layout.num_steps;
    config.training.per_device_train_batch_size = layout.rows_per_device;
    TestModel model(group, layout.model,
                    {.shape = layout.shape,
                     .cuts = layout.cuts,
                     .compute = layout.compute,
                     .policies = layout.policies,
                     .residual = layout.residual,
                     .gemms = layout.gemms,
                     .context_parallel = layout.context_parallel,
                     .recorder = nullptr,
                     .freeze = layout.freeze,
                     .adapters = layout.adapters,
                     .frozen_form = layout.frozen_form,
                     .chunks = layout.chunks,
                     .fp8 = layout.fp8,
                     .delayed_scaling = layout.delayed_scaling});
    data::Loader loader(rows, data::sampler_options(config, rows, layout.shape.data()),
                        model.mesh.data_rank(), layout.accumulation);
    const auto optimizer = optim::make_optimizer(model.zero, config.training);
    train::Trainer trainer(config.training, group, model.mesh, loader, model.transformer,
                           model.zero, *optimizer);
    Outcome outcome;
    for (int64_t step = 0; step < layout.num_steps; ++step) {
        outcome.steps.push_back(trainer.step([] { return train::ControlFlags(); }));
        RINGSHARD_CHECK(!outcome.steps.back().is_lost(), "{}",
                        outcome.steps.back().skipped_because);
    }
    outcome.eval_loss = train::Evaluator({}, rows, 3, group, model.mesh, model.transformer)
                            .evaluate([](double) {})
                            .loss;
    outcome.weights = model.weights();
    if (model.stack.delayed_scaling) outcome.maxima = model.stack.delayed_scaling->to_text();
    return outcome;
}

namespace {

bool is_near(double a, double b, double relative) {
    return std::abs(a - b) <= relative * std::abs(b);
}

}  // namespace

void expect_equal(const Outcome& outcome, const Outcome& reference) {
    for (size_t i = 0; i < reference.steps.size(); ++i) {
        const train::StepNumbers& a = outcome.steps[i];
        const train::StepNumbers& b = reference.steps[i];
        BOOST_TEST_INFO_SCOPE("step " << i + 1 << ": loss " << a.loss << " and " << b.loss
                                      << ", norm " << a.grad_norm << " and " << b.grad_norm);
        BOOST_TEST(is_near(a.loss, b.loss, i == 0 ? 1e-6 : 1e-5));
        BOOST_TEST(is_near(a.grad_norm, b.grad_norm, 1e-5));
        BOOST_TEST(is_near(a.entropy, b.entropy, 1e-5));
        BOOST_TEST(a.num_tokens == b.num_tokens);
        BOOST_TEST(a.epoch == b.epoch);
    }
    BOOST_TEST(is_near(outcome.eval_loss, reference.eval_loss, 1e-6));
    for (const auto& [name, weight] : reference.weights) {
        BOOST_TEST_INFO_SCOPE(name);
        // The gradient of a key bias nearly cancels, so that AdamW amplifies rounding: against the
        // learning rate.
        if (name.ends_with("k_proj.bias"))
            BOOST_TEST(largest_difference(outcome.weights.at(name), weight) < 2e-3);
        else
            BOOST_TEST(relative_distance(outcome.weights.at(name), weight) < 1e-4);
    }
}

void expect_no_drift(const Outcome& outcome, const Outcome& reference) {
    double difference = 0;
    for (size_t i = 0; i < reference.steps.size(); ++i)
        difference += (outcome.steps[i].loss - reference.steps[i].loss) /
                      static_cast<double>(reference.steps.size());
    BOOST_TEST(std::abs(difference) < 1e-3);
    BOOST_TEST(std::abs(outcome.eval_loss - reference.eval_loss) < 1e-2);
}

}  // namespace ringshard::test
