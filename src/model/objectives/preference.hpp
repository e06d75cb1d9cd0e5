#pragma once

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// Learning from pairs of a chosen and a rejected answer, by one of the losses of TRL's DPO trainer.
std::shared_ptr<const Objective> preference_objective(const config::TrainingSettings& training);

}  // namespace ringshard::model
