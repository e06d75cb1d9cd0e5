#pragma once

#include <set>
#include <span>
#include <string>

#include "ringshard/model/safetensors.hpp"

// Matrices stored in FP8 beside a scale for each of their blocks, or one for all of it. Loading
// multiplies by the scales in fp32, as transformers does with dequantize=True.
namespace ringshard::model {

// Returns the scales of a weight; nullptr where it has none.
const StoredTensor* find_scales(const StoredModel& stored, const std::string& weight);

// Returns true if the tensor holds scales of one of these weights, or of what a layer reads, which
// matter only for products in FP8.
bool is_scale(const std::string& tensor, const std::set<std::string>& weights);

// Fails where a weight in FP8 has no scales that divide it into equal blocks.
std::optional<Failure> check_scales(const StoredModel& stored, const std::string& weight,
                                    const StoredTensor& tensor);

// Multiplies elements of a matrix, from `first` on, by their scales, of which it reads those that
// it needs.
std::optional<Failure> multiply_by_scales(const StoredModel& stored, const StoredTensor& tensor,
                                          const StoredTensor& scales, int64_t first,
                                          std::span<float> elements);

}  // namespace ringshard::model
