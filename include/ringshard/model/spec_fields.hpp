#pragma once

#include <map>
#include <string>

#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// Returns every field of a model on which its outputs depend, by name, as text: two models of the
// same fields compute the same function of the same weights. Adapters, frozen tensors, names of
// tensors and the form of the files are left out.
std::map<std::string, std::string> spec_fields(const ModelSpec& spec);

}  // namespace ringshard::model
