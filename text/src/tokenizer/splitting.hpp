#pragma once

#include <string_view>
#include <vector>

#include "passage.hpp"

namespace ringshard::text {

// How to treat the matches when splitting a text.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior read_behavior(std::string_view name);

// Returns the parts of a text of `length` bytes at `offset`. Inverted: swaps matches and the text
// between them.
void split(size_t length, uint32_t offset, const std::vector<Cut>& matches, Behavior behavior,
           bool inverted, std::vector<Cut>& parts);

}  // namespace ringshard::text
