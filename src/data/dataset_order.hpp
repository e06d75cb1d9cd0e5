#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringshard/data/array_file.hpp"

// The order of single answers that are made of pairs. In the store, the two answers of a pair are
// neighbours. TRL puts the pairs of a run in order and then takes 1,000 of them at a time apart:
// the chosen answers come before the rejected ones.
namespace ringshard::data {

// A store with this field in its header holds such answers.
inline constexpr const char* pairs_field = "rows_are_pairs";
bool holds_pairs(const ArrayFile& store);

// By pair, whether both of its samples are copies.
std::vector<bool> copies_of_pairs(const std::vector<bool>& is_copy);

// Returns the samples of these pairs, in the order of the dataset.
std::vector<int64_t> samples_of_pairs(std::span<const int64_t> pairs);

}  // namespace ringshard::data
