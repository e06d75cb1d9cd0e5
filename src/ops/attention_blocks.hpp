#pragma once

#include "attention_kernels.hpp"
#include "vector_products.hpp"

// The keys of a block that each query of a task sees, and the workspace of both passes.
namespace ringshard::ops {
namespace {

constexpr int64_t keys_of_block = 64;

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

// The keys of a block that a query sees.
struct VisibleKeys {
    int32_t begin;
    int32_t end;
};
// Returns the visible range of the `keys` keys from `key` on.
template <class T>
RINGSHARD_KERNEL VisibleKeys visible_keys(const AttentionTask<T>& task, int64_t query, int64_t key,
                                          int64_t keys) {
    return {static_cast<int32_t>(least(keys, greatest(0, query - task.back - key))),
            static_cast<int32_t>(greatest(0, least(keys, query + task.ahead + 1 - key)))};
}

// The visible numbers of a row, from its number `i` on, and those of `rest` in place of the others.
// hides_first: visible.begin may be above 0.
template <class M, bool hides_first>
RINGSHARD_KERNEL typename M::Float keep_visible(typename M::Float values,
                                                const VisibleKeys& visible, int64_t i,
                                                typename M::Float rest) {
    const auto place = static_cast<int32_t>(i);
    const typename M::Float kept = keep_first<M>(values, visible.end - place, rest);
    if constexpr (hides_first) return keep_first<M>(rest, visible.begin - place, kept);
    return kept;
}

// Turns `count` products of queries and keys into scores under a cap.
template <class M, class T>
void cap_scores(const AttentionTask<T>& task, float* scores, int64_t count) {
    const float inner = task.scale / task.cap;
    for (int64_t i = 0; i < count; i += M::lanes)
        put<M>(scores + i, hyperbolic_tangent<M>(load<M>(scores + i) * inner) * task.cap);
}

// The rows of the task that see one of the keys from `key` on are those from first_row(), which is
// even, to end_of_rows().
template <class T>
RINGSHARD_KERNEL int64_t first_row(const AttentionTask<T>& task, int64_t key) {
    return greatest(0, key - task.ahead - task.first) & ~int64_t{1};
}
template <class T>
RINGSHARD_KERNEL int64_t end_of_rows(const AttentionTask<T>& task, int64_t key, int64_t keys) {
    return least(task.count, key + keys + task.back - task.first);
}

// The keys that rows of the task see are those from first_key(), where a block begins, to
// end_of_keys().
template <class T>
RINGSHARD_KERNEL int64_t first_key(const AttentionTask<T>& task) {
    return greatest(0, task.first - task.back) / keys_of_block * keys_of_block;
}
template <class T>
RINGSHARD_KERNEL int64_t end_of_keys(const AttentionTask<T>& task) {
    return least(task.keys, task.first + task.count + task.ahead);
}

}  // namespace
}  // namespace ringshard::ops
