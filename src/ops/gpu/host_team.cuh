#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <typeinfo>
#include <utility>
#include <vector>

#include "grid.hpp"
#include "host_accesses.hpp"
#include "threads.cuh"

namespace ringshard::ops::gpu {

// The team of the host, whose threads are loops: all of its threads end a phase before one begins
// the next.
template <int threads>
class HostTeam {
public:
    HostTeam(int64_t number, float* memory) : number_(number), memory_(memory) {}

    __host__ __device__ int64_t number() const { return number_; }
    __host__ __device__ float* memory() const { return memory_; }
    void sync() const {}

    template <class Work>
    void each(int64_t count, Work work) const {
        for (int64_t thread = 0; thread < threads; ++thread)
            for (int64_t i = thread; i < count; i += threads) work(i);
    }

    template <class Value, class Term, class Join>
    Value reduce(int64_t count, Value none, Term term, Join join) const {
        std::vector<Value> values(threads, none);
        for (int64_t thread = 0; thread < threads; ++thread)
            for (int64_t i = thread; i < count; i += threads)
                values[thread] = join(values[thread], term(i));
        return of_all_threads(std::move(values), join);
    }

    template <class Item, int most>
    struct Own {
        Item items[threads * most];
    };
    template <class Item, int most>
    Own<Item, most> own() const {
        return {};
    }
    template <class Item, int most, class Work>
    void each_own(int64_t count, Own<Item, most>& own, Work work) const {
        for (int64_t thread = 0; thread < threads; ++thread)
            for (int64_t k = 0; k < most; ++k)
                if (thread + k * threads < count)
                    work(thread + k * threads, own.items[thread * most + k]);
    }
    template <class Item, int most, class Value, class Term, class Join>
    Value reduce_own(int64_t count, Own<Item, most>& own, Value none, Term term, Join join) const {
        std::vector<Value> values(threads, none);
        each_own(count, own, [&](int64_t i, Item& item) {
            Value& value = values[i % threads];
            value = join(value, term(i, item));
        });
        return of_all_threads(std::move(values), join);
    }

private:
    template <class Value, class Join>
    Value of_all_threads(std::vector<Value> values, Join join) const {
        join_in_pairs(values, 1, warp_size, join);
        if constexpr (is_record<Value>) {
            join_in_pairs(values, warp_size, threads, join);
            return values[0];
        } else {
            Value value = values[0];
            for (int thread = warp_size; thread < threads; thread += warp_size)
                value = join(value, values[thread]);
            return value;
        }
    }

    // Of threads with numbers below `end` the bits of which from `first` on differ.
    template <class Value, class Join>
    void join_in_pairs(std::vector<Value>& values, int first, int end, Join join) const {
        for (int distance = end / 2; distance >= first; distance /= 2) {
            const std::vector<Value> before = values;
            for (int thread = 0; thread < threads; ++thread)
                values[thread] = join(before[thread], before[thread ^ distance]);
        }
    }

    int64_t number_;
    float* memory_;
};

// Runs the teams one after the other.
template <int threads, class Program>
void run_on_host(int64_t num_teams, const Program& program, int64_t floats_per_team) {
    note_host_launch(typeid(Program).name());
    std::vector<float> memory(static_cast<size_t>(floats_per_team));
    for (int64_t number = 0; number < num_teams; ++number)
        program(HostTeam<threads>(number, memory.data()));
}

}  // namespace ringshard::ops::gpu
