#pragma once

#include <cstdint>

// A caching allocator for tensors on the host. A training step allocates the same buffers again and
// again; the C library would return them to the system, which clears every page anew. So freed
// blocks are kept for the next tensor of about their size.
namespace ringshard::device {

// Installs the allocator for all of LibTorch's tensors on the host. Calling it again changes
// nothing.
void keep_host_memory();

// Makes meta tensors count as if they had memory, together with all others.
void count_imaginary_memory();

// Bytes that tensors hold, now and at the peak. May be called by any thread.
struct HostMemoryUse {
    int64_t live = 0;
    int64_t peak = 0;  // since the start, or since the last call of restart_host_memory_peak()
};
HostMemoryUse host_memory_use();
void restart_host_memory_peak();

}  // namespace ringshard::device
