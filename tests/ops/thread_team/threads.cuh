#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "barrier.hpp"

// In place of src/ops/gpu/threads.cuh: every thread of a GPU's team is a thread of the host. The
// barrier orders memory, a shuffle does not; registers and shared memory begin as NaN.
namespace ringshard::ops::gpu {

constexpr int warp_size = 32;

// What the threads of a team share.
class SharedByTeam {
public:
    static constexpr int bytes_of_buffer = 32 * 32;  // of 32 warps, a value each

    // Shared memory of a GPU is aligned by sixteen bytes at the begin of a block; a team's lies
    // `bytes_into_block` after it.
    SharedByTeam(int threads, int64_t floats, size_t bytes_into_block)
        : lanes_(static_cast<size_t>(threads)),
          warps_(static_cast<size_t>(threads / warp_size)),
          memory_(new (alignment) unsigned char[bytes_into_block % 16 +
                                                static_cast<size_t>(floats) * sizeof(float)]),
          first_(reinterpret_cast<float*>(memory_.get() + bytes_into_block % 16)) {
        std::fill_n(first_, floats, NAN);
        std::memset(buffers_, 0xff, sizeof(buffers_));
    }

    float* memory() const { return first_; }
    unsigned char* buffer(int number) { return buffers_[number]; }
    void sync() { barrier_.wait(static_cast<int>(lanes_.size())); }

    // A thread writes its word, and reads the other's once all of the warp have written. It writes
    // again into the same word two turns later: all have read it by then.
    int exchange(int word, int thread, int other, unsigned turn) {
        lanes_[static_cast<size_t>(thread)].words[turn % 2].store(word, std::memory_order_relaxed);
        warps_[static_cast<size_t>(thread / warp_size)].wait(warp_size);
        return lanes_[static_cast<size_t>(other)].words[turn % 2].load(std::memory_order_relaxed);
    }

private:
    struct Lane {
        std::atomic<int> words[2];
    };
    struct Delete {
        void operator()(unsigned char* memory) const { ::operator delete[](memory, alignment); }
    };
    static constexpr std::align_val_t alignment{128};

    test::Barrier<true> barrier_;
    std::vector<Lane> lanes_;
    std::vector<test::Barrier<false>> warps_;
    std::unique_ptr<unsigned char[], Delete> memory_;
    float* first_;
    alignas(16) unsigned char buffers_[2][bytes_of_buffer];
};

// The GPU's thread that this thread of the host is.
struct ThreadOfTeam {
    SharedByTeam* shared = nullptr;
    int number = 0;
    unsigned exchanges = 0;
};
inline thread_local ThreadOfTeam this_thread;

template <int threads>
int thread_of_team() {
    return this_thread.number;
}

template <int threads>
void sync_threads() {
    this_thread.shared->sync();
}

inline int word_of_lane(int word, int distance) {
    const int thread = this_thread.number;
    return this_thread.shared->exchange(word, thread, thread ^ distance, this_thread.exchanges++);
}

template <int bytes>
unsigned char* shared_buffer(int number) {
    static_assert(bytes <= SharedByTeam::bytes_of_buffer);
    return this_thread.shared->buffer(number);
}

template <class Values>
Values unset_registers() {
    static_assert(std::is_trivially_copyable_v<Values>);
    Values values;
    std::memset(static_cast<void*>(&values), 0xff, sizeof(values));
    return values;
}

}  // namespace ringshard::ops::gpu
