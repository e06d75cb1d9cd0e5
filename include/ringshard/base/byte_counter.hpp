#pragma once

#include <atomic>
#include <cstdint>

namespace ringshard {

// Counts the bytes of files that a process has read or written, on any of its threads. While the
// count grows the process is at work, however long that takes.
class ByteCounter {
public:
    void add(int64_t bytes) { total_.fetch_add(bytes, std::memory_order_relaxed); }
    int64_t total() const { return total_.load(std::memory_order_relaxed); }

private:
    std::atomic<int64_t> total_ = 0;
};

}  // namespace ringshard
