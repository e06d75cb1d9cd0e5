#pragma once

#include <string>
#include <vector>

#include "beat.hpp"

namespace ringshard::watch {

// A rank as those who watch know it.
struct RankView {
    std::string host;
    bool was_heard = false;
    bool is_silent = false;  // was heard, and no longer is
    double silent_for = 0;   // seconds
    Beat beat{};             // the last one
};

// Who keeps the others waiting, and in what: one line for people. `ranks` is indexed by rank.
std::string diagnose(const std::vector<RankView>& ranks);

}  // namespace ringshard::watch
