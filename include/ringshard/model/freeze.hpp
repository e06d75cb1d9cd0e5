#pragma once

#include <set>
#include <string>

#include "ringshard/base/expected.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// Returns the names of the tensors that a run does not train: those in which the regular expression
// `freeze` is found, and those in which `train_only` is not; an empty expression selects nothing.
// Fails (78) if an expression is invalid or is found in no name, if nothing is left to train, if
// tensors of one matrix product would have two roles, and if new rows of a vocabulary would never
// be learned.
Expected<std::set<std::string>> find_frozen(const ModelSpec& spec, const std::string& freeze,
                                            const std::string& train_only);

}  // namespace ringshard::model
