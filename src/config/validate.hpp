#pragma once

#include <set>

#include "statement.hpp"

namespace ringshard::config {

// Checks rules between settings. (An entry holds the rules of one setting, mesh those with the
// world size.) Skips rules that involve `broken` settings, which do not have the user's values.
void check_together(Settings& settings, const std::set<std::string>& broken, Problems& problems);

}  // namespace ringshard::config
