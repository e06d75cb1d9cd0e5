#pragma once

#include <string>
#include <vector>

namespace ringshard::config {

// The profiles that are built into the program, in the order of their names.
std::vector<std::string> profile_names();

}  // namespace ringshard::config
