#pragma once

#include <string>
#include <string_view>

namespace ringshard {

// Returns the XXH3-128 hash as 32 hexadecimal digits.
std::string hash_of(std::string_view bytes);

}  // namespace ringshard
