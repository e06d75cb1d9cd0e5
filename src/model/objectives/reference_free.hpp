#pragma once

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// Learning from pairs of a chosen and a rejected answer without a reference, by one of the losses
// of TRL's CPO trainer.
std::shared_ptr<const Objective> reference_free_objective(const config::TrainingSettings& training);

}  // namespace ringshard::model
