#pragma once

#include "ringshard/model/objective.hpp"

// Learning from the scores of whole documents.
namespace ringshard::model {

// One score, the reward: that of a chosen document is to be above that of the rejected one, by the
// loss of TRL's reward trainer.
std::shared_ptr<const Objective> reward_objective(const config::TrainingSettings& training);

// A score for each label: the cross-entropy of the document's label.
std::shared_ptr<const Objective> classification_objective();
// A score for each label, of which a document has several or none: the mean of the cross-entropies
// of having each. The bits of its number are its labels.
std::shared_ptr<const Objective> label_sets_objective();
// Learning a number for each document, by the square of the error.
std::shared_ptr<const Objective> regression_objective();

}  // namespace ringshard::model
