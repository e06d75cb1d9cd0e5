#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ringshard/hub/safetensors.hpp"

// Numbers as they lie in files.
namespace ringshard::hub {

std::optional<StoredType> read_stored_type(std::string_view name);  // F32, BF16, ...
std::string_view to_text(StoredType type);
size_t bytes_per_element(StoredType type);
// Returns true if weights may lie in files as numbers of this type.
bool can_be_weight(StoredType type);

void to_fp32(StoredType type, std::span<const std::byte> from, std::span<float> into);
std::vector<std::byte> from_fp32(StoredType type, std::span<const float> from);
void round_to(StoredType type, std::span<float> numbers);

}  // namespace ringshard::hub
