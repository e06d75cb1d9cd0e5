#pragma once

#include <set>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

// Names of tensors and modules, and the expressions that choose some of them.
namespace ringshard {

// The part of a name that an expression has to match: all of it, all of it or its end behind a dot,
// or any part.
enum class Fit { whole, end, any_part };

// Returns the names that a regular expression matches, in the syntax of Python's re. Fails (78) if
// the text is no expression, or takes too many steps: expressions come with strangers' adapters.
Expected<std::set<std::string>> names_that_match(const std::string& setting,
                                                 const std::string& expression, Fit fit,
                                                 const std::vector<std::string>& names);

// Returns the names, at most three, that have most in common with an expression that matches none.
std::string nearest_names(std::string expression, std::vector<std::string> names);

}  // namespace ringshard
