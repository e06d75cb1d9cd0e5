#pragma once

#include <cstddef>

namespace ringshard::checkpoint {

// Copies with non-temporal stores, if the processor has them: they need not read a line before they
// overwrite it, and they keep training's data in the caches.
void stream(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace ringshard::checkpoint
