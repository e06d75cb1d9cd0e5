#include "touch_pages.hpp"

#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "ringshard/offload/host_offload_store.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

using namespace ringshard;

namespace {

size_t resident_pages(void* memory, size_t bytes) {
    constexpr size_t page = 4096;
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    BOOST_REQUIRE(mincore(memory, bytes, pages.data()) == 0);
    size_t count = 0;
    for (const unsigned char is_there : pages) count += is_there & 1U;
    return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_pages_are_there_and_keep_their_bytes) {
    at::set_num_threads(3);
    constexpr size_t pages = 20'011;  // neither the first nor the last begins a huge page
    constexpr size_t bytes = pages * 4096 - 5;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOOST_REQUIRE(memory != MAP_FAILED);
    auto* const numbers = static_cast<unsigned char*>(memory);
    constexpr size_t written = bytes / 3;
    for (size_t i = 0; i < written; i += 999'999) numbers[i] = 77;
    BOOST_TEST(resident_pages(memory, bytes) < pages);
    offload::touch_pages(memory, bytes);
    BOOST_TEST(resident_pages(memory, bytes) == pages);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; ++i)
        wrong += numbers[i] != (i < written && i % 999'999 == 0 ? 77 : 0) ? 1U : 0U;
    BOOST_TEST(wrong == 0U);
    munmap(memory, bytes);
}

BOOST_AUTO_TEST_CASE(a_store_in_memory_has_zeros_until_it_is_written) {
    offload::HostOffloadStore store(at::kCPU);
    constexpr int64_t elements = 1'000'003;
    for (int round = 0; round < 2; ++round) {  // it grows, and its first part stays
        const int64_t offset = store.reserve(elements * 4);
        BOOST_REQUIRE(!store.allocate());
        const at::Tensor buffer = at::full({elements}, 3.0F);
        store.wait(store.read(buffer, elements * 4, offset));
        BOOST_TEST(buffer.eq(0).all().item<bool>());
        store.wait(store.write(at::full({elements}, 5.0F), elements * 4, offset));
    }
    const at::Tensor first = at::empty({elements}, at::kFloat);
    store.wait(store.read(first, elements * 4, 0));
    BOOST_TEST(first.eq(5).all().item<bool>());
}
