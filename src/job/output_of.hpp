#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace ringshard::job {

// What a program prints, if it can be run and ends well within a minute. Stops waiting, and ends
// the program, when asked to.
std::optional<std::string> output_of(std::vector<std::string> command, const std::stop_token& stop);

}  // namespace ringshard::job
