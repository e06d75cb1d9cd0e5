#pragma once

#include <cstring>

#include "cuda_runtime_api.h"

// NCCL in the model of streams. All ranks have the same numbers here: this rank's own stand for
// those of the others, so nothing has to travel.
struct NcclRanks {
    int count;
    const void* sent;  // last
};
using ncclComm_t = NcclRanks*;
struct ncclUniqueId {
    char internal[128];
};
struct ncclConfig_t {
    int maxCTAs;
};
#define NCCL_CONFIG_INITIALIZER {0}
enum ncclResult_t { ncclSuccess, ncclInProgress };
enum ncclRedOp_t { ncclSum };
enum ncclDataType_t { ncclFloat32, ncclFloat64, ncclBfloat16, ncclInt32, ncclInt64, ncclUint8 };

inline size_t bytes_of(size_t count, ncclDataType_t type) {
    switch (type) {
        case ncclUint8: return count;
        case ncclBfloat16: return 2 * count;
        case ncclFloat64:
        case ncclInt64: return 8 * count;
        default: return 4 * count;
    }
}
inline void launch_on(cudaStream_t stream, const char* what,
                      std::vector<ringshard::test::Touch> touches) {
    ringshard::test::StreamModel::current()->launch(stream, {what, std::move(touches)});
}

inline const char* ncclGetErrorString(ncclResult_t) { return ""; }
inline const char* ncclGetLastError(ncclComm_t) { return ""; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    *id = {};
    return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int count, ncclUniqueId, int,
                                           const ncclConfig_t*) {
    *communicator = new NcclRanks{count, nullptr};
    return ncclSuccess;
}
inline ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
inline ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
    delete communicator;
    return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t communicator) { return ncclCommDestroy(communicator); }
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* result) {
    *result = ncclSuccess;
    return ncclSuccess;
}
inline ncclResult_t ncclGroupStart() { return ncclSuccess; }
inline ncclResult_t ncclGroupEnd() { return ncclSuccess; }

inline ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                                  ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
    const size_t bytes = bytes_of(count, type);
    std::memmove(out, in, bytes);
    launch_on(stream, "an all-reduce", {{in, bytes, false}, {out, bytes, true}});
    return ncclSuccess;
}
inline ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                                  ncclComm_t communicator, cudaStream_t stream) {
    const size_t bytes = bytes_of(count, type);
    const size_t ranks = static_cast<size_t>(communicator->count);
    for (size_t rank = 0; rank < ranks; ++rank)
        std::memmove(static_cast<char*>(out) + rank * bytes, in, bytes);
    launch_on(stream, "an all-gather", {{in, bytes, false}, {out, ranks * bytes, true}});
    return ncclSuccess;
}
inline ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                                      ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
    const size_t bytes = bytes_of(count, type);
    const size_t ranks = static_cast<size_t>(communicator->count);
    std::memmove(out, in, bytes);
    launch_on(stream, "a reduce-scatter", {{in, ranks * bytes, false}, {out, bytes, true}});
    return ncclSuccess;
}
inline ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int,
                             ncclComm_t communicator, cudaStream_t stream) {
    communicator->sent = from;
    launch_on(stream, "a send", {{from, bytes_of(count, type), false}});
    return ncclSuccess;
}
inline ncclResult_t ncclRecv(void* into, size_t count, ncclDataType_t type, int,
                             ncclComm_t communicator, cudaStream_t stream) {
    const size_t bytes = bytes_of(count, type);
    std::memmove(into, communicator->sent, bytes);
    launch_on(stream, "a receive", {{into, bytes, true}});
    return ncclSuccess;
}
inline ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int,
                                  ncclComm_t, cudaStream_t stream) {
    const size_t bytes = bytes_of(count, type);
    std::memmove(out, in, bytes);
    launch_on(stream, "a broadcast", {{in, bytes, false}, {out, bytes, true}});
    return ncclSuccess;
}
