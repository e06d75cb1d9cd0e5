#pragma once

#include <cstddef>

// What kernels do where the host runs them. A program that counts it defines both functions; every
// other one has those that do nothing.
namespace ringshard::ops::gpu {

enum class HostAccess { read, write };

// A kernel begins.
void note_host_launch(const char* kernel);
// It reads or writes a pack of numbers.
void note_host_access(HostAccess access, const void* place, size_t bytes);

}  // namespace ringshard::ops::gpu
