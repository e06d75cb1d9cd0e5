#pragma once

#include "ringshard/model/objective.hpp"

namespace ringshard::model {

// Learning embeddings of documents, by what InBatch gives each of them.
std::shared_ptr<const Objective> embedding_objective();

}  // namespace ringshard::model
