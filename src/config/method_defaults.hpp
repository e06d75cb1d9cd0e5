#pragma once

#include "statement.hpp"

namespace ringshard::config {

// Returns what a method sets where nobody says otherwise, as TRL's trainer of it does.
Statements method_defaults(const std::string& method);

}  // namespace ringshard::config
