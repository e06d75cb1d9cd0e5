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
    int64_t step = 0;      // 0: before the first step
    double idle = 0;       // seconds since the rank last made progress
    double limit = 0;      // seconds without progress that its work may take; 0: no limit
    bool is_last = false;  // the rank exits and sends no more
    double seconds = 0;    // time in its current activity
    std::string doing{};
    // Holds ages instead of times: `began` means seconds ago. `last` holds only the awaited
    // operation, if there is one.
    std::vector<comm::GroupLogState> groups{};

    bool is_late() const { return limit > 0 && idle > limit; }
};

// Returns the state of this process's groups in the form that a heartbeat carries.
std::vector<comm::GroupLogState> groups_for_heartbeat(const comm::FlightRecorder& flight_recorder);

std::string to_text(const Heartbeat& heartbeat);
std::optional<Heartbeat> read_heartbeat(std::string_view text);  // nothing if malformed

}  // namespace ringshard::watch
