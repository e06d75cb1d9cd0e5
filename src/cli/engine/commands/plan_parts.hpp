#pragma once

#include <nlohmann/json.hpp>

#include "ringshard/plan/step_time.hpp"

namespace ringshard::cli {

// Returns the parts of the time of a step, for --parts. share: of its total.
nlohmann::ordered_json parts_as_json(const plan::StepTime& time);
// Returns the kernels that no part counts.
nlohmann::ordered_json uncounted_as_json();
void print_parts(const plan::StepTime& time);

}  // namespace ringshard::cli
