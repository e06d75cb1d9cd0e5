#pragma once

#include <cstdint>
#include <optional>

#include "ringshard/config/schedule_settings.hpp"

namespace ringshard::optim {

// What a checkpoint holds of a learning rate that follows evaluations.
struct PlateauState {
    double rate = 0;
    std::optional<double> best{};  // unset before the first evaluation
    int64_t bad_evaluations = 0;   // in a row
    int64_t cooldown = 0;          // evaluations that do not count any more
};

// A learning rate that falls where evaluations do not improve, evaluation for evaluation as torch's
// ReduceLROnPlateau.
class Plateau {
public:
    Plateau(const config::PlateauSettings& settings, double learning_rate)
        : settings_(settings), state_{.rate = learning_rate} {}

    void take(double metric);
    double rate() const { return state_.rate; }
    const PlateauState& state() const { return state_; }
    void go_to(const PlateauState& state) { state_ = state; }

private:
    bool is_better(double metric) const;

    config::PlateauSettings settings_;
    PlateauState state_;
};

}  // namespace ringshard::optim
