#pragma once

#include "futex.hpp"

namespace ringshard::test {

// A barrier of host threads that promises what the GPU's does: either all that a thread wrote
// before it is seen behind it, or nothing.
template <bool orders_memory>
class Barrier {
public:
    void wait(int threads) {
        constexpr auto joining =
            orders_memory ? std::memory_order_acq_rel : std::memory_order_relaxed;
        constexpr auto opening =
            orders_memory ? std::memory_order_release : std::memory_order_relaxed;
        const int turn = turn_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, joining) + 1 == threads) {
            arrived_.store(0, std::memory_order_relaxed);
            turn_.store(turn + 1, opening);
            wake_all(turn_);
            return;
        }
        constexpr long most_seconds = 100;
        while (!is_open(turn)) sleep_while(turn_, turn, most_seconds);
    }

private:
    bool is_open(int turn) const {
        constexpr auto seeing =
            orders_memory ? std::memory_order_acquire : std::memory_order_relaxed;
        return turn_.load(seeing) != turn;
    }

    std::atomic<int> arrived_ = 0;
    std::atomic<int> turn_ = 0;
};

}  // namespace ringshard::test
