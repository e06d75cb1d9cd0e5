#pragma once

#include <set>

#include "statement.hpp"

namespace ringshard::config {

// Rules between settings. (Rules of one setting stand in its entry, rules with the world in mesh.)
// Those of `broken` settings are left out: their values are not what somebody gave.
void check_together(Settings& settings, const std::set<std::string>& broken, Problems& problems);

}  // namespace ringshard::config
