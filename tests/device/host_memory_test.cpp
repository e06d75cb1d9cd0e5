#include "ringshard/device/host_memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

using namespace ringshard;

namespace {

struct Fixture {
    Fixture() { device::keep_host_memory(); }
};

c10::DataPtr allocate(size_t bytes) { return c10::GetCPUAllocator()->allocate(bytes); }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(host_memory, Fixture)

BOOST_AUTO_TEST_CASE(every_size_has_room_and_begins_at_a_cache_line) {
    for (size_t bytes = 1; bytes < (size_t{40} << 20); bytes = bytes * 5 / 4 + 1) {
        const c10::DataPtr block = allocate(bytes);
        BOOST_TEST(reinterpret_cast<uintptr_t>(block.get()) % 64 == 0);
        std::memset(block.get(), 1, bytes);
    }
    BOOST_TEST(allocate(0).get() == nullptr);
}

BOOST_AUTO_TEST_CASE(live_and_peak_bytes_are_those_asked_for) {
    const device::HostMemoryUse before = device::host_memory_use();
    device::restart_host_memory_peak();
    {
        const c10::DataPtr small = allocate(1000);
        const c10::DataPtr big = allocate(3'000'001);
        BOOST_TEST(device::host_memory_use().live - before.live == 3'001'001);
    }
    const device::HostMemoryUse after = device::host_memory_use();
    BOOST_TEST(after.live == before.live);
    BOOST_TEST(after.peak - before.live == 3'001'001);
    device::restart_host_memory_peak();
    BOOST_TEST(device::host_memory_use().peak == before.live);
}

BOOST_AUTO_TEST_CASE(a_freed_block_serves_the_next_tensor_of_about_its_size) {
    for (const size_t bytes : {size_t{5000}, size_t{5000000}}) {
        const void* first = allocate(bytes).get();
        BOOST_TEST(allocate(bytes - bytes / 50).get() == first);
    }
}

BOOST_AUTO_TEST_CASE(kept_blocks_do_not_pile_up) {
    const auto resident_bytes = [] {
        std::FILE* const file = std::fopen("/proc/self/statm", "r");
        long total = 0;
        long resident = 0;
        BOOST_REQUIRE(std::fscanf(file, "%ld %ld", &total, &resident) == 2);
        std::fclose(file);
        return resident * 4096;
    };
    const long before = resident_bytes();
    constexpr size_t largest = size_t{48} << 20;
    // Sizes that no freed block serves: without a bound, they would hold 400 MB in the end.
    for (size_t bytes = largest; bytes > (size_t{4} << 20); bytes = bytes * 8 / 9) {
        const c10::DataPtr block = allocate(bytes);
        std::memset(block.get(), 1, bytes);
    }
    BOOST_TEST(resident_bytes() - before < 130L << 20);
}

BOOST_AUTO_TEST_CASE(threads_may_share_it) {
    const int64_t before = device::host_memory_use().live;
    std::vector<std::thread> threads;
    for (unsigned char mark = 1; mark <= 4; ++mark) {
        threads.emplace_back([mark] {
            for (int round = 0; round < 2000; ++round) {
                const size_t bytes = 100 + static_cast<size_t>(round) * 300;
                const c10::DataPtr block = allocate(bytes);
                auto* const begin = static_cast<unsigned char*>(block.get());
                std::memset(begin, mark, bytes);
                if (begin[bytes / 2] != mark) std::abort();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    BOOST_TEST(device::host_memory_use().live == before);
}

BOOST_AUTO_TEST_SUITE_END()
