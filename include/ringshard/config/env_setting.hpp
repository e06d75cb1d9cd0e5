#pragma once

#include <map>
#include <string>

#include "ringshard/base/expected.hpp"

namespace ringshard::config {

// Reads `env`, a mapping from names of variables to values. Fails (78) for a variable that MPI, the
// loader or the settings have read before the settings are known.
Expected<std::map<std::string, std::string>> read_env(const std::string& text);

}  // namespace ringshard::config
