#include "best_model.hpp"

#include <algorithm>
#include <cmath>

namespace ringshard::train {

BestModel::BestModel(const config::EvaluationSettings& settings)
    : metric_(settings.metric_for_best_model.empty() ? "loss" : settings.metric_for_best_model),
      greater_is_better_(settings.greater_is_better.value_or(!metric_.ends_with("loss"))) {
    if (!metric_.starts_with("eval_")) metric_ = "eval_" + metric_;
}

bool BestModel::take(const MetricsLine& line) {
    if (const double saved = number_in(line, "save_step"); !std::isnan(saved))
        note_save(static_cast<int64_t>(saved));
    const double found = number_in(line, metric_);
    const double step = number_in(line, "step");
    if (std::isnan(found) || step == 0) return false;
    const bool is_better = !value_ || (greater_is_better_ ? found > *value_ : found < *value_);
    if (!is_better) return false;
    value_ = found;
    step_ = static_cast<int64_t>(step);
    better_than_before_.insert(*step_);
    return true;
}

void BestModel::note_save(int64_t step) {
    if (better_than_before_.contains(step)) saved_step_ = std::max(saved_step_.value_or(0), step);
}

}  // namespace ringshard::train
