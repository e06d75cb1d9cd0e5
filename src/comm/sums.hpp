#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>

namespace ringshard::comm {

// Adds: into[i] += from[i], for `bytes` bytes of the given type. Adds bf16 in fp32 and rounds once.
void add(std::byte* into, const std::byte* from, size_t bytes, at::ScalarType type);

}  // namespace ringshard::comm
