#pragma once

#include <optional>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::cli {

// Settings whose work is not built in yet: told by name, not left undone. Empty if none is asked
// for.
std::optional<Failure> find_unserved(const config::Settings& settings);

}  // namespace ringshard::cli
