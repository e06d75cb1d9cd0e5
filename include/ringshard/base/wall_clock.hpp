#pragma once

#include <chrono>

namespace ringshard {

// Of the clock of the day, which may jump: for records; durations are base/timer.hpp's.
inline double seconds_since_1970() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

}  // namespace ringshard
