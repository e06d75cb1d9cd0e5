#pragma once

#include <array>

#include "ringshard/base/expected.hpp"
#include "ringshard/text/value.hpp"

// Pairs of answers that are learned as single ones: a row becomes two samples.
namespace ringshard::data {

bool is_pair_of_answers(const text::Value& row);

// Returns the chosen and the rejected answer of a row, each as a row with prompt, completion and
// label. Where there is no prompt, it is what both begin with.
Expected<std::array<text::Value, 2>> take_apart(const text::Value& row);

}  // namespace ringshard::data
