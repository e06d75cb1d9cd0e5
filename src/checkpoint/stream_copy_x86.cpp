#include <emmintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "stream_copy.hpp"

namespace ringshard::checkpoint {

void stream(std::byte* to, const std::byte* from, size_t bytes) {
    constexpr size_t word = sizeof(__m128i);
    const size_t to_next_word = (word - reinterpret_cast<uintptr_t>(to) % word) % word;
    const size_t head = std::min(bytes, to_next_word);
    std::memcpy(to, from, head);
    size_t done = head;
    for (; done + word <= bytes; done += word)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + done),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done)));
    _mm_sfence();
    std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace ringshard::checkpoint
