// Evaluation by evaluation, as transformers' EarlyStoppingCallback counts
// (early_stopping_golden.py).
#include "early_stopping.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

using namespace ringshard;
using train::MetricsLine;

namespace {

MetricsLine evaluation(const std::string& metric, int64_t step, const nlohmann::json& value) {
    const double number =
        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    return {{"step", step}, {metric, number}, {"eval_runtime", 0.5}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(counts_as_the_callback_of_transformers) {
    std::ifstream file(GOLDENS);
    const auto cases = nlohmann::json::parse(file);
    BOOST_TEST(cases.size() == 8U);
    for (const auto& golden : cases) {
        config::EvaluationSettings settings;
        settings.metric_for_best_model = golden["metric"];
        settings.greater_is_better = golden["greater_is_better"].get<bool>();
        settings.early_stopping_patience = golden["patience"].get<int64_t>();
        settings.early_stopping_threshold = golden["threshold"].get<double>();
        train::BestModel best(settings);
        train::EarlyStopping stopping(settings);
        const auto& counters = golden["counters"];
        for (size_t i = 0; i < counters.size(); ++i) {
            const auto line =
                evaluation(best.metric(), static_cast<int64_t>(i + 1), golden["values"][i]);
            stopping.take({{"step", static_cast<int64_t>(i + 1)}, {"loss", 1.0}}, best);
            stopping.take(line, best);
            best.consider(line);
            BOOST_TEST_CONTEXT(golden["name"] << " " << i) {
                BOOST_TEST(stopping.counter() == counters[i].get<int64_t>());
                const bool stops = golden["stops_after"] == i + 1;
                BOOST_TEST(stopping.asks_to_stop() == stops);
            }
        }
    }
}

// An evaluation is a line that has the time of its set.
BOOST_AUTO_TEST_CASE(finds_the_time_of_the_set_that_has_the_metric) {
    for (const auto& [metric, time] : {std::pair{"loss", "eval_runtime"},
                                       {"nll_loss", "eval_runtime"},
                                       {"eval_hard_loss", "eval_hard_runtime"},
                                       {"hard_nll_loss", "eval_hard_runtime"},
                                       {"mean_token_accuracy", "eval_runtime"}}) {
        config::EvaluationSettings settings;
        settings.metric_for_best_model = metric;
        BOOST_TEST(train::BestModel(settings).runtime_key() == time, metric);
    }
}

BOOST_AUTO_TEST_CASE(never_stops_without_a_patience_and_forgets_what_was_before_the_first_step) {
    config::EvaluationSettings settings;
    train::BestModel best(settings);
    train::EarlyStopping none(settings);
    settings.early_stopping_patience = 1;
    train::EarlyStopping one(settings);
    for (int64_t step = 0; step < 3; ++step) {
        const auto line = evaluation("eval_loss", step, 2.0);
        none.take(line, best);
        one.take(line, best);
        best.consider(line);
        BOOST_TEST(!none.asks_to_stop());
        BOOST_TEST(one.asks_to_stop() == (step == 2));
    }
}
