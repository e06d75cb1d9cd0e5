#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringshard/model/safetensors.hpp"

namespace ringshard::model {

int64_t num_elements(const std::vector<int64_t>& shape);
int64_t num_bytes(const TensorEntry& entry);

// The header of a safetensors file: the length of the list, and the list of tensors, whose elements
// follow one after another in this order.
std::string safetensors_header(const std::vector<TensorEntry>& entries);

}  // namespace ringshard::model
