#pragma once

#include <string>
#include <vector>

namespace ringshard::watch {

// Chooses up to three ranks that watch: the first rank of up to three hosts, then other ranks. They
// are on different hosts if possible, so that watchers survive the loss of one. `hosts`: by rank.
std::vector<size_t> choose_watchers(const std::vector<std::string>& hosts);

}  // namespace ringshard::watch
