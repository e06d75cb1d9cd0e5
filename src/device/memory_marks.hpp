#pragma once

#include <cstddef>

// Tells the address sanitizer, in a build that has it, which bytes of a kept block belong to a
// tensor: otherwise it takes all of a block for in use as long as the process holds it.
namespace ringshard::device {

void mark_unused(const void* begin, size_t bytes);
void mark_used(const void* begin, size_t bytes);

}  // namespace ringshard::device
