#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringshard/data/array_file.hpp"

// The order of single answers that are made of pairs. In the store the two of a pair lie one behind
// the other. TRL takes chosen pairs apart: of 1,000 the chosen answers stand before the rejected
// ones.
namespace ringshard::data {

// The field of a store's header that says it: the samples are those of pairs.
inline constexpr const char* pairs_field = "rows_are_pairs";
bool holds_pairs(const ArrayFile& store);

// By pair, whether both of its samples are copies.
std::vector<bool> copies_of_pairs(const std::vector<bool>& is_copy);

// Returns the samples of these pairs, in the order of the dataset.
std::vector<int64_t> samples_of_pairs(std::span<const int64_t> pairs);

}  // namespace ringshard::data
