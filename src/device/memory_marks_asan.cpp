#include <sanitizer/asan_interface.h>

#include "memory_marks.hpp"

namespace ringshard::device {

void mark_unused(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
void mark_used(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }

}  // namespace ringshard::device
