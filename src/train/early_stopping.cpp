#include "early_stopping.hpp"

#include <cmath>

namespace ringshard::train {

void EarlyStopping::take(const MetricsLine& line, const BestModel& best) {
    // Of several named sets, the one whose metric is compared.
    const bool is_evaluation = !std::isnan(number_in(line, best.runtime_key()));
    if (!is_evaluation) return;
    const double found = number_in(line, best.metric());  // NaN is no improvement
    const bool improves =
        best.is_better(found) && std::abs(found - best.value_or_worst()) > threshold_;
    counter_ = improves || !is_compared_ ? 0 : counter_ + 1;
    // The model before the first step is no best model, so the next one has none to compare with.
    is_compared_ = is_compared_ || number_in(line, "step") > 0;
}

}  // namespace ringshard::train
