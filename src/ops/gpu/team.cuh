#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "grid.hpp"
#include "host_accesses.hpp"
#include "kernels.hpp"

// A kernel here is a program that one team of threads runs in phases: `each` distributes items,
// `reduce` combines the values of all items and returns the result to every thread. `each_own` and
// `reduce_own` do so with values that a thread keeps for each of its items from phase to phase, in
// registers: at most as many as the template argument of own(). A program is written once and run
// by two kinds of teams: those of a GPU, and those of the host, whose threads are loops. Both
// distribute items alike and join in the same order, so a test on the host tries the indexing and
// the arithmetic that runs on the GPU.
namespace ringshard::ops::gpu {

constexpr int warp_size = 32;

template <int threads>
class GpuTeam {
public:
    __device__ GpuTeam(int64_t number, float* memory) : number_(number), memory_(memory) {}

    __host__ __device__ int64_t number() const { return number_; }
    __host__ __device__ float* memory() const {
        return memory_;
    }  // of the team, as large as was asked for
    __device__ void sync() const {
        if constexpr (threads == warp_size)
            __syncwarp();
        else
            __syncthreads();
    }

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
        return {};
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
    __device__ static int thread() { return static_cast<int>(threadIdx.x) % threads; }

    // Two buffers in turns: a thread that writes into one has passed the barrier that all threads
    // reach after they have read it.
    template <class Value, class Join>
    __device__ Value of_all_threads(Value value, Join join) const {
        for (int distance = warp_size / 2; distance > 0; distance /= 2)
            value = join(value, of_lane(value, distance));
        if constexpr (threads > warp_size) {
            constexpr int num_warps = threads / warp_size;
            __shared__ alignas(16) unsigned char rooms[2][num_warps * sizeof(Value)];
            Value* const of_warps = reinterpret_cast<Value*>(rooms[turn_]);
            turn_ = 1 - turn_;
            if (thread() % warp_size == 0) of_warps[thread() / warp_size] = value;
            __syncthreads();
            value = of_warps[0];
            for (int warp = 1; warp < num_warps; ++warp) value = join(value, of_warps[warp]);
        }
        return value;
    }

    template <class Value>
    __device__ static Value of_lane(const Value& value, int distance) {
        static_assert(sizeof(Value) % sizeof(int) == 0);
        constexpr int num_words = sizeof(Value) / sizeof(int);
        int words[num_words];
        memcpy(words, &value, sizeof(Value));
        for (int& word : words) word = __shfl_xor_sync(0xffffffffU, word, distance);
        Value other;
        memcpy(&other, words, sizeof(Value));
        return other;
    }

    int64_t number_;
    float* memory_;
    mutable int turn_ = 0;
};

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
        for (int distance = warp_size / 2; distance > 0; distance /= 2) {
            const std::vector<Value> before = values;
            for (int thread = 0; thread < threads; ++thread)
                values[thread] = join(before[thread], before[thread ^ distance]);
        }
        Value value = values[0];
        for (int thread = warp_size; thread < threads; thread += warp_size)
            value = join(value, values[thread]);
        return value;
    }

    int64_t number_;
    float* memory_;
};

template <int threads, class Program>
__global__ void __launch_bounds__(threads_per_block(threads))
    go_through(Program program, int64_t num_teams, int64_t floats_per_team) {
    extern __shared__ float memory[];
    const int teams_of_block = static_cast<int>(blockDim.x) / threads;
    const int team_of_block = static_cast<int>(threadIdx.x) / threads;
    const int64_t number = static_cast<int64_t>(blockIdx.x) * teams_of_block + team_of_block;
    if (number < num_teams)
        program(GpuTeam<threads>(number, memory + team_of_block * floats_per_team));
}

inline void check_cuda(cudaError_t error, const char* what) {
    if (error != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Runs the program on `num_teams` teams of `threads` threads.
template <int threads, class Program>
void run(const Queue& queue, int64_t num_teams, const Program& program,
         int64_t floats_per_team = 0) {
    if (num_teams == 0) return;
    if (!queue.on_gpu) {
        note_host_launch(typeid(Program).name());
        std::vector<float> memory(static_cast<size_t>(floats_per_team));
        for (int64_t number = 0; number < num_teams; ++number)
            program(HostTeam<threads>(number, memory.data()));
        return;
    }
    const Grid grid = grid_of(num_teams, threads, floats_per_team);
    // 48 KiB, less the static shared memory of a kernel.
    constexpr size_t shared_without_asking = 40 * 1024;
    if (grid.shared_bytes > shared_without_asking)
        check_cuda(
            cudaFuncSetAttribute(reinterpret_cast<const void*>(&go_through<threads, Program>),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(grid.shared_bytes)),
            "shared memory of a kernel");
    go_through<threads, Program>
        <<<dim3(static_cast<unsigned>(grid.blocks)), dim3(grid.threads_per_block),
           grid.shared_bytes, static_cast<cudaStream_t>(queue.stream)>>>(program, num_teams,
                                                                         floats_per_team);
    check_cuda(cudaGetLastError(), "a kernel could not be started");
}

}  // namespace ringshard::ops::gpu
