#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace ringshard::job {

// Returns what a program prints, if it can be run and ends with 0 within a minute. A stop request
// ends the program.
std::optional<std::string> output_of(std::vector<std::string> command, const std::stop_token& stop);

}  // namespace ringshard::job
