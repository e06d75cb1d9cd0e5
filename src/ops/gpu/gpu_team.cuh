#pragma once

#include <cstdint>
#include <cstring>

#include "grid.hpp"
#include "threads.cuh"

namespace ringshard::ops::gpu {

// The team of a GPU, as one of its threads sees it.
template <int threads>
class GpuTeam {
public:
    __device__ GpuTeam(int64_t number, float* memory) : number_(number), memory_(memory) {}

    __host__ __device__ int64_t number() const { return number_; }
    __host__ __device__ float* memory() const {
        return memory_;
    }  // of the team, as large as was asked for
    __device__ void sync() const { sync_threads<threads>(); }

    template <class Work>
    __device__ void each(int64_t count, Work work) const {
        for (int64_t i = thread(); i < count; i += threads) work(i);
    }

    template <class Value, class Term, class Join>
    __device__ Value reduce(int64_t count, Value none, Term term, Join join) const {
        Value value = none;
        for (int64_t i = thread(); i < count; i += threads) value = join(value, term(i));
        return of_all_threads(value, join);
    }

    template <class Item, int most>
    struct Own {
        Item items[most];
    };
    template <class Item, int most>
    __device__ Own<Item, most> own() const {
        return unset_registers<Own<Item, most>>();
    }
    template <class Item, int most, class Work>
    __device__ void each_own(int64_t count, Own<Item, most>& own, Work work) const {
#pragma unroll
        for (int k = 0; k < most; ++k) {
            const int64_t i = thread() + k * threads;
            if (i < count) work(i, own.items[k]);
        }
    }
    template <class Item, int most, class Value, class Term, class Join>
    __device__ Value reduce_own(int64_t count, Own<Item, most>& own, Value none, Term term,
                                Join join) const {
        Value value = none;
        each_own(count, own, [&](int64_t i, Item& item) { value = join(value, term(i, item)); });
        return of_all_threads(value, join);
    }

private:
    __device__ static int thread() { return thread_of_team<threads>(); }

    // Two buffers in turns: a thread that writes into one has passed the barrier that all threads
    // reach after they have read it.
    template <class Value, class Join>
    __device__ Value of_all_threads(Value value, Join join) const {
        for (int distance = warp_size / 2; distance > 0; distance /= 2)
            value = join(value, of_lane(value, distance));
        if constexpr (threads > warp_size) {
            constexpr int num_warps = threads / warp_size;
            constexpr int bytes = num_warps * static_cast<int>(sizeof(Value));
            Value* const of_warps = reinterpret_cast<Value*>(shared_buffer<bytes>(turn_));
            turn_ = 1 - turn_;
            if (thread() % warp_size == 0) of_warps[thread() / warp_size] = value;
            sync();
            if constexpr (is_record<Value>) {
                value = of_warps[thread() % num_warps];
                for (int distance = num_warps / 2; distance > 0; distance /= 2)
                    value = join(value, of_lane(value, distance));
            } else {
                value = of_warps[0];
                for (int warp = 1; warp < num_warps; ++warp) value = join(value, of_warps[warp]);
            }
        }
        return value;
    }

    template <class Value>
    __device__ static Value of_lane(const Value& value, int distance) {
        static_assert(sizeof(Value) % sizeof(int) == 0);
        constexpr int num_words = sizeof(Value) / sizeof(int);
        int words[num_words];
        memcpy(words, &value, sizeof(Value));
        for (int& word : words) word = word_of_lane(word, distance);
        Value other;
        memcpy(&other, words, sizeof(Value));
        return other;
    }

    int64_t number_;
    float* memory_;
    mutable int turn_ = 0;
};

}  // namespace ringshard::ops::gpu
