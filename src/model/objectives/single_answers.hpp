#pragma once

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// Learning from single answers that are desirable or not, by one of the losses of TRL's KTO
// trainer.
std::shared_ptr<const Objective> single_answers_objective(const config::TrainingSettings& training);

}  // namespace ringshard::model
