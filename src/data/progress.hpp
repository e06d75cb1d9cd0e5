#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ringshard/base/timer.hpp"

namespace ringshard::data {

// A progress line on standard error: redrawn on a terminal, otherwise a new line every ten seconds.
class Progress {
public:
    // `sharers`: number of ranks with as much work as this one.
    Progress(std::string what, int64_t total, int sharers, bool is_shown);
    ~Progress();

    // Adds finished units of the total, and their rows. Thread-safe.
    void add(int64_t done, int64_t rows);

private:
    void show(double now);
    std::string what_;
    int64_t total_;
    int sharers_;
    bool is_shown_;
    bool is_terminal_;
    Timer timer_;
    std::atomic<int64_t> done_ = 0;
    std::atomic<int64_t> rows_ = 0;
    std::atomic<double> next_show_;
    std::atomic<bool> has_shown_ = false;
};

}  // namespace ringshard::data
