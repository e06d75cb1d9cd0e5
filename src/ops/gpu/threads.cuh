#pragma once

#include <cuda_runtime_api.h>

// How the threads of a GPU's team find their number, wait for each other and exchange values: all
// that a team (gpu_team.cuh) takes from the machine that runs it. A test has a file of this name
// with the threads of the host.
namespace ringshard::ops::gpu {

constexpr int warp_size = 32;

template <int threads>
__device__ int thread_of_team() {
    return static_cast<int>(threadIdx.x) % threads;
}

// Makes the threads of a team wait for each other; each then sees what the others have written.
template <int threads>
__device__ void sync_threads() {
    if constexpr (threads == warp_size)
        __syncwarp();
    else
        __syncthreads();
}

// Returns the word of the lane whose number in the warp differs in the bits of `distance`. Says
// nothing about other memory.
__device__ inline int word_of_lane(int word, int distance) {
    return __shfl_xor_sync(0xffffffffU, word, distance);
}

// Returns one of two buffers that the threads of a block share, beside the team's memory.
template <int bytes>
__device__ unsigned char* shared_buffer(int number) {
    __shared__ alignas(16) unsigned char buffers[2][bytes];
    return buffers[number];
}

// Returns values that the caller writes before it reads them.
template <class Values>
__device__ Values unset_registers() {
    return {};
}

}  // namespace ringshard::ops::gpu
