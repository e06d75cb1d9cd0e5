#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringshard::run {

// The versions of the libraries, by name: {"LibTorch", "2.11.0"}, ...
std::vector<std::pair<std::string, std::string>> library_versions();
std::string versions_text();  // as JSON

}  // namespace ringshard::run
