#pragma once

#include <cstddef>

namespace ringshard::checkpoint {

// Copies past the processor's caches where it has instructions for it: a line that is written whole
// need not be read first, and what training has in the caches stays there.
void stream(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace ringshard::checkpoint
