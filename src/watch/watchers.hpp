#pragma once

#include <string>
#include <vector>

namespace ringshard::watch {

// Chooses up to three watchers: the first rank of up to three hosts, then other ranks. Different
// hosts let watchers survive the loss of one. `hosts`: by rank.
std::vector<size_t> choose_watchers(const std::vector<std::string>& hosts);

}  // namespace ringshard::watch
