#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/comm/journal.hpp"

namespace ringshard::watch {

// What a rank tells those who watch, about once a second.
struct Beat {
    int64_t rank = 0;
    int64_t step = 0;      // 0: before the first
    double idle = 0;       // seconds since it last made progress
    double limit = 0;      // of these, for the work that it is at; 0: none
    bool is_last = false;  // it has come to its end, and will be silent
    double seconds = 0;    // in what it is doing
    std::string doing{};
    // Ages in place of times: `began` is how many seconds ago. Of the last operations, the one that
    // is waited for, if one is.
    std::vector<comm::PageState> pages{};

    bool is_late() const { return limit > 0 && idle > limit; }
};

// The pages of this process, as a beat carries them.
std::vector<comm::PageState> pages_for_beat(const comm::Journal& journal);

std::string to_text(const Beat& beat);
std::optional<Beat> read_beat(std::string_view text);  // nothing if it is none

}  // namespace ringshard::watch
