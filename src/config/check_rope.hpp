#pragma once

#include <string>

namespace ringshard::config {

// Returns what is wrong in the setting rope_parameters with any model; empty: nothing. A model's
// own rules follow where its config.json is read.
std::string wrong_rope_parameters(const std::string& text);

}  // namespace ringshard::config
