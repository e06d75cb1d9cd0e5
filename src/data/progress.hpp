#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ringshard/base/timer.hpp"

namespace ringshard::data {

// A line on standard error about how far the work is: redrawn on a terminal, elsewhere a new one
// every ten seconds.
class Progress {
public:
    // `sharers`: how many ranks do as much as this one.
    Progress(std::string what, int64_t total, int sharers, bool is_shown);
    ~Progress();

    // Threads may call it. `done` of the total have been finished, with so many rows.
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
