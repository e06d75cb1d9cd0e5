#include "ringshard/config/metric_names.hpp"

namespace ringshard::config {

namespace {

std::vector<std::string_view> metrics_of(Method method) {
    std::vector<std::string_view> names{"loss"};
    if (method != Method::reward && method != Method::embedding) names.emplace_back("entropy");
    switch (method) {
        case Method::embedding:
        case Method::classification: names.emplace_back("accuracy"); break;
        case Method::reward:
            names.insert(names.end(), reward_metrics.begin(), reward_metrics.end());
            break;
        case Method::cpo:
            names.insert(names.end(), odds_metrics.begin(), odds_metrics.end());
            [[fallthrough]];
        case Method::dpo:
            names.emplace_back(likelihood_metric);
            names.emplace_back("mean_token_accuracy");
            names.insert(names.end(), pair_metrics.begin(), pair_metrics.end());
            break;
        case Method::kto:
            names.insert(names.end(), {baseline_metric, "mean_token_accuracy"});
            names.insert(names.end(), answer_metrics.begin(), answer_metrics.end());
            break;
        case Method::sft: names.emplace_back("mean_token_accuracy"); break;
    }
    return names;
}

}  // namespace

std::vector<std::string_view> evaluation_metrics(const TrainingSettings& training) {
    std::vector<std::string_view> names = metrics_of(training.method);
    if (training.likelihood_weight() == 0) std::erase(names, likelihood_metric);
    if (training.loss_type != LossType::orpo)
        for (const char* name : odds_metrics) std::erase(names, name);
    if (training.learns_numbers()) return {"loss"};
    if (!training.has_baseline()) std::erase(names, baseline_metric);
    return names;
}

std::vector<std::string_view> all_evaluation_metrics() {
    std::vector<std::string_view> all;
    for (const Method method : {Method::sft, Method::dpo, Method::cpo, Method::kto, Method::reward,
                                Method::classification, Method::embedding})
        for (const std::string_view name : metrics_of(method)) all.push_back(name);
    return all;
}

}  // namespace ringshard::config
