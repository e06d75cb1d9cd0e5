#pragma once

#include <string>
#include <vector>

namespace ringshard::watch {

// Which ranks watch over all: the first ones of up to three hosts, then of what is left. The hosts
// differ where they can, so that losing one leaves watchers. `hosts`: by rank.
std::vector<size_t> choose_watchers(const std::vector<std::string>& hosts);

}  // namespace ringshard::watch
