#include "ringshard/base/hash.hpp"

#include <xxhash.h>

#include <iomanip>
#include <sstream>

namespace ringshard {

std::string hash_of(std::string_view bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(16) << hash.high64 << std::setw(16)
           << hash.low64;
    return digits.str();
}

}  // namespace ringshard
