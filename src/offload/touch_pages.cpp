#include "touch_pages.hpp"

#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <bit>
#include <cstdint>

#include "ringshard/base/narrow.hpp"

namespace ringshard::offload {

namespace {

constexpr size_t page = size_t{4} << 10;
constexpr size_t huge_page = size_t{2} << 20;

constexpr uintptr_t round_up(uintptr_t address, size_t to) { return (address + to - 1) / to * to; }

}  // namespace

void touch_pages(void* memory, size_t bytes) {
    const auto begin = std::bit_cast<uintptr_t>(memory);
    const uintptr_t first = round_up(begin, huge_page);
    const uintptr_t last = (begin + bytes) / huge_page * huge_page;
    // Only advice to the kernel: correct without huge pages too.
    if (first < last) madvise(std::bit_cast<void*>(first), last - first, MADV_HUGEPAGE);

    auto* const numbers = static_cast<volatile std::byte*>(memory);
    constexpr int64_t at_least = 16;  // huge pages per thread
    at::parallel_for(0, narrow<int64_t>((bytes + huge_page - 1) / huge_page), at_least,
                     [&](int64_t from, int64_t to) {
                         const size_t end = std::min(bytes, static_cast<size_t>(to) * huge_page);
                         for (size_t i = static_cast<size_t>(from) * huge_page; i < end; i += page)
                             numbers[i] = numbers[i];
                     });
    if (bytes > 0) numbers[bytes - 1] = numbers[bytes - 1];
}

}  // namespace ringshard::offload
