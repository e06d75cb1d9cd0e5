#pragma once

#include <string>
#include <vector>

#include "heartbeat.hpp"

namespace ringshard::watch {

// The state of a rank as a watcher knows it.
struct RankView {
    std::string host;
    bool was_heard = false;
    bool is_silent = false;  // sent heartbeats before, but no longer does
    double silent_for = 0;   // seconds
    Heartbeat heartbeat{};   // the last one that arrived
};

// Returns one line for the user: which ranks keep the others waiting, and in which operation.
// `ranks` is indexed by rank.
std::string diagnose(const std::vector<RankView>& ranks);

}  // namespace ringshard::watch
