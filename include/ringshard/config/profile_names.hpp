#pragma once

#include <string>
#include <vector>

namespace ringshard::config {

// Returns the names of the built-in profiles, sorted.
std::vector<std::string> profile_names();

}  // namespace ringshard::config
