#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/error.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::config {
struct TrainingSettings;
}

namespace ringshard::train {

// Returns the name of the first tensor, in the order of the model, whose gradient is not finite;
// empty if all are finite. Collective over the world.
std::string first_non_finite_gradient(const shard::Zero& zero, const comm::Group& world);

// A step whose loss or gradient is not finite.
struct NonFiniteStep {
    int64_t step;  // from 1
    const std::string& adapter;
    double loss;
    double grad_norm;
    std::string tensor;  // the first with a bad gradient
    std::vector<int64_t> rows;
};
std::string describe(const NonFiniteStep& bad);

// Describes a step in which nothing is to be learned. `adapter`: empty for a whole model.
std::string describe_no_targets(int64_t step, const std::string& adapter);

// Returns the reason why a run ends over such steps; nothing if `on_nan` leaves the step out.
std::optional<Failure> fail_after_skipping(const config::TrainingSettings& settings,
                                           int64_t in_a_row, const std::string& description);

}  // namespace ringshard::train
