#pragma once

#include "statement.hpp"

namespace ringshard::config {

// Rules between settings. (Rules of one setting stand in its entry, rules with the world in mesh.)
void check_together(Settings& settings, Problems& problems);

}  // namespace ringshard::config
