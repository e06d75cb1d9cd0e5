#pragma once

#include <string_view>
#include <vector>

#include "passage.hpp"

namespace ringshard::text {

// What becomes of the matches when a text is split at them.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior read_behavior(std::string_view name);

// The parts of a text of `length` bytes, which stands at `offset`. Inverted: what does not match is
// taken as what does.
void split(size_t length, uint32_t offset, const std::vector<Cut>& matches, Behavior behavior,
           bool inverted, std::vector<Cut>& parts);

}  // namespace ringshard::text
