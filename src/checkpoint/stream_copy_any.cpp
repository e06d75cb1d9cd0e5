#include <cstring>

#include "stream_copy.hpp"

namespace ringshard::checkpoint {

void stream(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace ringshard::checkpoint
