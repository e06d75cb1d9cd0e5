#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace ringshard::job {

// Returns the output of a program that exits with 0 within a minute; nothing otherwise. A stop
// request ends the program.
std::optional<std::string> output_of(std::vector<std::string> command, const std::stop_token& stop);

}  // namespace ringshard::job
