#pragma once

#include <cstddef>

// Counts the accesses of kernels that run on the host. A program that counts them defines both
// functions; every other program links empty ones.
namespace ringshard::ops::gpu {

enum class HostAccess { read, write };

// Called when a kernel begins.
void note_host_launch(const char* kernel);
// Called when a kernel reads or writes a pack of numbers.
void note_host_access(HostAccess access, const void* place, size_t bytes);

}  // namespace ringshard::ops::gpu
