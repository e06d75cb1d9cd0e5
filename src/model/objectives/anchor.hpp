#pragma once

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// Tokens with stored log-probabilities of the base model have `weight` x the forward KL divergence
// from them as their loss; all others have that of `of_data`, which has no further numbers and
// reads no stored ones.
std::shared_ptr<const Objective> anchored_objective(std::shared_ptr<const Objective> of_data,
                                                    double weight);

}  // namespace ringshard::model
