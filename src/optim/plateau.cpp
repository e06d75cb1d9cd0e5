#include "ringshard/optim/plateau.hpp"

#include <algorithm>
#include <limits>

// Sums and products stand in torch's order, so that the rates are its own to the last bits.
namespace ringshard::optim {

bool Plateau::is_better(double metric) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double threshold = settings_.threshold;
    const double best = state_.best.value_or(settings_.wants_least ? infinity : -infinity);
    if (settings_.wants_least)
        return metric < (settings_.is_relative ? best * (1.0 - threshold) : best - threshold);
    return metric > (settings_.is_relative ? best * (threshold + 1.0) : best + threshold);
}

void Plateau::take(double metric) {
    if (is_better(metric)) {
        state_.best = metric;
        state_.bad_evaluations = 0;
    } else {
        ++state_.bad_evaluations;
    }
    if (state_.cooldown > 0) {
        --state_.cooldown;
        state_.bad_evaluations = 0;
    }
    if (state_.bad_evaluations <= settings_.patience) return;
    const double reduced = std::max(state_.rate * settings_.factor, settings_.lowest_rate);
    if (state_.rate - reduced > settings_.least_change) state_.rate = reduced;
    state_.cooldown = settings_.cooldown;
    state_.bad_evaluations = 0;
}

}  // namespace ringshard::optim
