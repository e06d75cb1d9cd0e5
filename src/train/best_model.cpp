#include "best_model.hpp"

#include <cmath>

namespace ringshard::train {

BestModel::BestModel(const config::EvaluationSettings& settings)
    : metric_(settings.metric_for_best_model.empty() ? "loss" : settings.metric_for_best_model),
      greater_is_better_(settings.greater_is_better.value_or(!metric_.ends_with("loss"))) {
    if (!metric_.starts_with("eval_")) metric_ = "eval_" + metric_;
}

bool BestModel::take(const MetricsLine& line) {
    const double found = number_in(line, metric_);
    if (std::isnan(found)) return false;
    const bool is_better = !value_ || (greater_is_better_ ? found > *value_ : found < *value_);
    if (!is_better) return false;
    value_ = found;
    step_ = static_cast<int64_t>(number_in(line, "step"));
    return true;
}

}  // namespace ringshard::train
