#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/comm/flight_recorder.hpp"

namespace ringshard::watch {

// The state that a rank sends to the watchers about once a second.
struct Heartbeat {
    int64_t rank = 0;
    int64_t step = 0;      // 0: before the first
    double idle = 0;       // seconds since it last made progress
    double limit = 0;      // seconds without progress that its work allows; 0: no limit
    bool is_last = false;  // the rank ends, and sends no more
    double seconds = 0;    // in its activity
    std::string doing{};
    // Ages in place of times: `began` is seconds ago. `last` holds only the operation that is
    // waited for, if any.
    std::vector<comm::GroupLogState> groups{};

    bool is_late() const { return limit > 0 && idle > limit; }
};

// Returns the groups of this process in the form that a heartbeat carries.
std::vector<comm::GroupLogState> groups_for_heartbeat(const comm::FlightRecorder& flight_recorder);

std::string to_text(const Heartbeat& heartbeat);
std::optional<Heartbeat> read_heartbeat(std::string_view text);  // nothing if malformed

}  // namespace ringshard::watch
