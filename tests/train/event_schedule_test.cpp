// The steps at which a run logs, evaluates and saves.
#include "event_schedule.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "best_model.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/metrics.hpp"

using namespace ringshard;
using train::EventSchedule;

namespace {

enum class What { log, evaluate, save };

// The steps of 1 ... num_steps after which it is due, epochs being 4 steps long.
std::vector<int64_t> due_steps(const config::Config& config, int64_t num_steps, What what) {
    const EventSchedule events(config, num_steps);
    std::vector<int64_t> steps;
    for (int64_t step = 1; step <= num_steps; ++step) {
        const train::Due due = events.after(step, static_cast<double>(step) / 4, step % 4 == 0);
        const bool is_due = what == What::log        ? due.log
                            : what == What::evaluate ? due.evaluate
                                                     : due.save;
        if (is_due) steps.push_back(step);
    }
    return steps;
}

using Steps = std::vector<int64_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(logs_by_steps_by_epochs_and_by_shares) {
    config::Config config;
    config.logging.logging_steps = 3;
    BOOST_TEST(due_steps(config, 10, What::log) == (Steps{3, 6, 9}));
    config.logging.logging_first_step = true;
    BOOST_TEST(due_steps(config, 10, What::log) == (Steps{1, 3, 6, 9}));
    config.logging.logging_steps = 0.25;  // 2.5 steps, rounded up
    BOOST_TEST(due_steps(config, 10, What::log) == (Steps{1, 3, 6, 9}));
    config.logging.logging_first_step = false;
    config.logging.logging_strategy = config::Interval::epoch;
    BOOST_TEST(due_steps(config, 10, What::log) == (Steps{4, 8, 10}));
    config.logging.logging_strategy = config::Interval::no;
    BOOST_TEST(due_steps(config, 10, What::log) == Steps{});
}

BOOST_AUTO_TEST_CASE(evaluates_at_the_end_too) {
    config::Config config;
    BOOST_TEST(due_steps(config, 10, What::evaluate) == Steps{});
    config::EvaluationSettings& evaluation = config.evaluation;
    evaluation.eval_strategy = config::Interval::steps;
    evaluation.eval_steps = 4;
    BOOST_TEST(due_steps(config, 10, What::evaluate) == (Steps{4, 8, 10}));
    evaluation.eval_delay = 5;
    BOOST_TEST(due_steps(config, 10, What::evaluate) == (Steps{8, 10}));
    evaluation.eval_strategy = config::Interval::epoch;
    evaluation.eval_delay = 1.5;
    BOOST_TEST(due_steps(config, 10, What::evaluate) == (Steps{8, 10}));
    evaluation = {};
    evaluation.eval_strategy = config::Interval::steps;
    config.logging.logging_steps = 5;  // stands in for eval_steps
    BOOST_TEST(due_steps(config, 10, What::evaluate) == (Steps{5, 10}));
}

BOOST_AUTO_TEST_CASE(saves_at_the_end_unless_told_not_to) {
    config::Config config;
    config.checkpoint.save_steps = 4;
    BOOST_TEST(due_steps(config, 10, What::save) == (Steps{4, 8, 10}));
    config.checkpoint.save_strategy = config::SaveStrategy::epoch;
    BOOST_TEST(due_steps(config, 10, What::save) == (Steps{4, 8, 10}));
    config.checkpoint.save_strategy = config::SaveStrategy::no;
    BOOST_TEST(due_steps(config, 10, What::save) == Steps{});
    config.checkpoint.save_strategy = config::SaveStrategy::best;
    BOOST_TEST(due_steps(config, 10, What::save) == Steps{});
}

BOOST_AUTO_TEST_CASE(the_best_model_is_the_first_of_equals) {
    train::BestModel by_loss(config::EvaluationSettings{});
    const auto at = [](int64_t step, double loss, double accuracy) {
        return train::MetricsLine{
            {"step", step}, {"eval_loss", loss}, {"eval_mean_token_accuracy", accuracy}};
    };
    BOOST_TEST(!by_loss.consider({{"step", int64_t{1}}, {"loss", 0.1}}));
    BOOST_TEST(by_loss.consider(at(2, 3.0, 0.2)));
    BOOST_TEST(!by_loss.consider(at(4, 3.0, 0.3)));
    BOOST_TEST(by_loss.consider(at(6, 2.5, 0.1)));
    BOOST_TEST(*by_loss.step() == 6);

    config::EvaluationSettings accuracy;
    accuracy.metric_for_best_model = "mean_token_accuracy";
    train::BestModel by_accuracy(accuracy);
    BOOST_TEST(by_accuracy.consider(at(2, 3.0, 0.2)));
    BOOST_TEST(by_accuracy.consider(at(4, 3.0, 0.3)));
    BOOST_TEST(!by_accuracy.consider(at(6, 2.5, 0.1)));
    BOOST_TEST(*by_accuracy.value() == 0.3);
}

BOOST_AUTO_TEST_CASE(the_best_of_those_that_are_saved) {
    train::BestModel best{config::EvaluationSettings()};
    const auto evaluated = [&](int64_t step, double loss) {
        return best.consider({{"step", step}, {"eval_loss", loss}});
    };
    BOOST_TEST(!evaluated(0, 0.1));  // before the first step
    BOOST_TEST(!best.last_best_of({0, 1, 2}));
    BOOST_TEST(evaluated(1, 3.0));
    BOOST_TEST(evaluated(3, 2.0));
    BOOST_TEST(!evaluated(4, 2.5));
    BOOST_TEST(*best.step() == 3);
    BOOST_TEST(*best.last_best_of({4, 1}) == 1);
    BOOST_TEST(*best.last_best_of({1, 3, 4}) == 3);
    BOOST_TEST(!best.last_best_of({4}));
}

train::StepNumbers step_of(int64_t tokens, double seconds, double loss, double grad_norm,
                           double compute, double comm_wait) {
    train::StepNumbers numbers;
    numbers.loss = loss;
    numbers.grad_norm = grad_norm;
    numbers.step_tokens = tokens;
    numbers.seconds = seconds;
    numbers.ranks.resize(2);
    numbers.ranks[0].compute = compute;
    numbers.ranks[1].comm_wait = comm_wait;
    return numbers;
}

BOOST_AUTO_TEST_CASE(a_window_leaves_out_skipped_steps) {
    train::StepWindow window;
    window.add(step_of(10, 1, 2, 1, 3, 4));
    train::StepNumbers skipped = step_of(10, 1, std::nan(""), 0, 5, 6);
    skipped.skipped_because = "the loss is nan";
    window.add(skipped);
    window.add(step_of(20, 2, 4, 5, 1, 2));
    const auto summary = window.take();
    BOOST_TEST(window.is_empty());
    BOOST_TEST(summary.num_steps == 3);
    BOOST_TEST(summary.num_skipped == 1);
    BOOST_TEST(summary.numbers.ranks[0].compute == 9.0);
    BOOST_TEST(summary.numbers.ranks[1].comm_wait == 12.0);
    const auto line = train::step_line(summary, {.num_ranks = 2, .peak_operations = 1});
    BOOST_TEST(train::number_in(line, "loss") == 3.0);
    BOOST_TEST(train::number_in(line, "grad_norm") == 5.0);
    BOOST_TEST(train::number_in(line, "tokens_per_second") == 10.0);
    BOOST_TEST(train::number_in(line, "tokens_per_second_per_rank") == 5.0);
    BOOST_TEST(train::number_in(line, "skipped_steps") == 1.0);
}
