#include "best_model.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/config/metric_names.hpp"

namespace ringshard::train {

bool keeps_best(const config::Config& config) {
    return config.evaluation.load_best_model_at_end ||
           config.checkpoint.save_strategy == config::SaveStrategy::best;
}

bool asks_for_best(const config::Config& config) {
    return keeps_best(config) || !config.evaluation.metric_for_best_model.empty();
}

BestModel::BestModel(const config::EvaluationSettings& settings)
    : metric_(settings.metric_for_best_model.empty() ? "loss" : settings.metric_for_best_model),
      greater_is_better_(settings.greater_is_better.value_or(!metric_.ends_with("loss"))) {
    if (!metric_.starts_with("eval_")) metric_ = "eval_" + metric_;
}

std::string BestModel::runtime_key() const {
    size_t longest = 0;  // "nll_loss" ends as "loss" does
    for (const std::string_view number : config::all_evaluation_metrics())
        if (metric_.ends_with(number)) longest = std::max(longest, number.size());
    if (longest == 0) return "eval_runtime";
    return concat(metric_.substr(0, metric_.size() - longest), "runtime");
}

bool BestModel::consider(const MetricsLine& line) {
    const double found = number_in(line, metric_);
    const double step = number_in(line, "step");
    if (std::isnan(found) || step == 0) return false;
    if (!is_better(found)) return false;
    value_ = found;
    step_ = static_cast<int64_t>(step);
    better_than_before_.insert(*step_);
    return true;
}

std::optional<int64_t> BestModel::last_best_of(const std::vector<int64_t>& steps) const {
    std::optional<int64_t> last;
    for (const int64_t step : steps)
        if (better_than_before_.contains(step)) last = std::max(last.value_or(step), step);
    return last;
}

}  // namespace ringshard::train
