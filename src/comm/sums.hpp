#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>

namespace ringshard::comm {

// into[i] += from[i] for `bytes` bytes of the given type. bf16 is added in fp32 and rounded once.
void add(std::byte* into, const std::byte* from, size_t bytes, at::ScalarType type);

}  // namespace ringshard::comm
