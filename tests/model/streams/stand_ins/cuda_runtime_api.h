#pragma once

#include <cstddef>
#include <cstring>

#include "stream_model.hpp"

// The part of CUDA's runtime that the sources of streams use, in the model of streams.
using cudaStream_t = int;
using cudaEvent_t = int;
enum cudaError_t { cudaSuccess, cudaErrorNotReady };
enum cudaMemcpyKind { cudaMemcpyDefault };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
constexpr unsigned cudaHostRegisterDefault = 0;
constexpr unsigned cudaEventDefault = 0;
struct cudaDeviceProp {
    int major = 9;
    int multiProcessorCount = 132;
};

inline const char* cudaGetErrorString(cudaError_t) { return ""; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
// The host's question does not make it wait.
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ringshard::test::StreamModel::current()->wait_on_host(stream);
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    ringshard::test::StreamModel& model = *ringshard::test::StreamModel::current();
    for (int stream = 0; stream < model.num_streams(); ++stream) model.wait_on_host(stream);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* into, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
    std::memcpy(into, from, bytes);
    ringshard::test::StreamModel::current()->launch(
        stream, {"a copy", {{from, bytes, false}, {into, bytes, true}}});
    return cudaSuccess;
}
