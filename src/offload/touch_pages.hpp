#pragma once

#include <cstddef>

namespace ringshard::offload {

// Makes the system allocate all pages of a range of memory, with all threads of this rank and in
// huge pages where it has them; the bytes stay as they are. Pinning untouched memory does
// the same with one thread, 4 KiB at a time.
void touch_pages(void* memory, size_t bytes);

}  // namespace ringshard::offload
