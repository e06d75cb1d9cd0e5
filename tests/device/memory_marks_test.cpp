// Only in builds with the address sanitizer: it reports accesses to cached memory that no tensor
// owns.
#include <c10/core/CPUAllocator.h>
#include <sanitizer/asan_interface.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/device/host_memory.hpp"

using namespace ringshard;

BOOST_AUTO_TEST_CASE(a_tensor_may_touch_its_own_bytes_and_no_others) {
    device::keep_host_memory();
    for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{300'001}, size_t{5'000'003}}) {
        c10::DataPtr block = c10::GetCPUAllocator()->allocate(bytes);
        auto* const begin = static_cast<char*>(block.get());
        BOOST_TEST(__asan_region_is_poisoned(begin, bytes) == nullptr);
        BOOST_TEST(__asan_address_is_poisoned(begin - 1));
        BOOST_TEST(__asan_address_is_poisoned(begin + bytes));
        block = {};
        BOOST_TEST(__asan_address_is_poisoned(begin));
        BOOST_TEST(__asan_address_is_poisoned(begin + bytes - 1));
    }
}

BOOST_AUTO_TEST_CASE(what_went_back_to_the_system_is_no_longer_marked) {
    device::keep_host_memory();
    constexpr size_t largest = size_t{48} << 20;
    for (size_t bytes = largest; bytes > (size_t{4} << 20); bytes = bytes * 8 / 9) {
        const c10::DataPtr block = c10::GetCPUAllocator()->allocate(bytes);
        BOOST_TEST(__asan_region_is_poisoned(block.get(), bytes) == nullptr);
    }
}
