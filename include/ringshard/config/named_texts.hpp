#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringshard::config {

// Settings as somebody wrote them, names and texts, in the order in which they were written.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;

}  // namespace ringshard::config
