#pragma once

#include <string>
#include <vector>

namespace ringshard::model {

// Returns the names, at most three, that have most in common with an expression that matches none.
std::string nearest_names(std::string expression, std::vector<std::string> names);

}  // namespace ringshard::model
