#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringshard::config {

// Settings as the user wrote them: names and texts, in order.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;

}  // namespace ringshard::config
