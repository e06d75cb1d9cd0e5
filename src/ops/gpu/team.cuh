#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "gpu_team.cuh"
#include "grid.hpp"
#include "host_team.cuh"
#include "kernels.hpp"

// A kernel here is a program that one team of threads runs in phases: `each` distributes items,
// `reduce` combines the values of all items and returns the result to every thread. `each_own` and
// `reduce_own` do so with values that a thread keeps for each of its items from phase to phase, in
// registers: at most as many as the template argument of own(). A program is written once and run
// by two kinds of teams: those of a GPU, and those of the host, whose threads are loops. Both
// distribute items alike and join in the same order, so a test on the host tries the indexing and
// the arithmetic that runs on the GPU.
namespace ringshard::ops::gpu {

template <int threads, int resident_blocks, class Program>
__global__ void __launch_bounds__(threads_per_block(threads), resident_blocks)
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

// Runs the program on `num_teams` teams of `threads` threads. Its registers leave room for
// `resident_blocks` blocks on a multiprocessor at least.
template <int threads, int resident_blocks = 0, class Program>
void run(const Queue& queue, int64_t num_teams, const Program& program,
         int64_t floats_per_team = 0) {
    if (num_teams == 0) return;
    if (!queue.on_gpu) return run_on_host<threads>(num_teams, program, floats_per_team);
    const Grid grid = grid_of(num_teams, threads, floats_per_team);
    // 48 KiB, less the static shared memory of a kernel.
    constexpr size_t shared_without_asking = 40 * 1024;
    if (grid.shared_bytes > shared_without_asking)
        check_cuda(
            cudaFuncSetAttribute(
                reinterpret_cast<const void*>(&go_through<threads, resident_blocks, Program>),
                cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared_bytes)),
            "shared memory of a kernel");
    go_through<threads, resident_blocks, Program>
        <<<dim3(static_cast<unsigned>(grid.blocks)), dim3(grid.threads_per_block),
           grid.shared_bytes, static_cast<cudaStream_t>(queue.stream)>>>(program, num_teams,
                                                                         floats_per_team);
    check_cuda(cudaGetLastError(), "a kernel could not be started");
}

}  // namespace ringshard::ops::gpu
