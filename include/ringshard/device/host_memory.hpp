#pragma once

#include <cstdint>

// The memory of tensors on the host. A training step asks for the same buffers again and again;
// given back to the C library, they would be taken from the system and cleared anew each time, page
// by page. So freed blocks are kept for the next tensor of about their size.
namespace ringshard::device {

// From now on, for all of LibTorch's tensors on the host. Calling it again changes nothing.
void keep_host_memory();

// From now on tensors without numbers (meta) count as if they had some, together with all others.
void count_imaginary_memory();

// Bytes that tensors asked for and still hold, now and at most. Any thread may ask.
struct HostMemoryUse {
    int64_t live = 0;
    int64_t peak = 0;  // since the start, or since the last call of restart_host_memory_peak()
};
HostMemoryUse host_memory_use();
void restart_host_memory_peak();

}  // namespace ringshard::device
