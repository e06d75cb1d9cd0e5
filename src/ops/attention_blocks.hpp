#pragma once

#include "attention_kernels.hpp"
#include "attention_products.hpp"

// Which queries of a task meet which keys of a block, and the memory that both passes work in.
namespace ringshard::ops {
namespace {

constexpr int64_t keys_of_block = 64;

RINGSHARD_KERNEL int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
RINGSHARD_KERNEL int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
RINGSHARD_KERNEL int64_t rounded_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

// Hands out pieces of the caller's memory, each from an address that 64 divides. Without memory it
// counts what would be needed.
class Memory {
public:
    explicit Memory(void* begin) : begin_(reinterpret_cast<uintptr_t>(begin)) {}
    template <class T>
    T* take(int64_t count) {
        T* const piece = reinterpret_cast<T*>(begin_ + static_cast<uintptr_t>(used_));
        used_ = rounded_up(used_ + count * static_cast<int64_t>(sizeof(T)), 64);
        return piece;
    }
    int64_t used() const { return used_; }

private:
    uintptr_t begin_;
    int64_t used_ = 0;
};

// Of the keys from `key` on, how many a query sees.
template <class T>
RINGSHARD_KERNEL int64_t visible_keys(const AttentionTask<T>& task, int64_t query, int64_t key,
                                      int64_t keys) {
    if (!task.diagonal) return keys;
    return greatest(0, least(keys, query + 1 - key));
}

// The first row of the task that sees a key from `key` on; even.
template <class T>
RINGSHARD_KERNEL int64_t first_row(const AttentionTask<T>& task, int64_t key) {
    return task.diagonal ? greatest(0, key - task.first) & ~int64_t{1} : 0;
}

}  // namespace
}  // namespace ringshard::ops
