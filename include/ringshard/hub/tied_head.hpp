#pragma once

#include <cstdint>

#include "ringshard/hub/safetensors.hpp"
#include "ringshard/model/model_spec.hpp"

// config.json may say that the head is the embedding while the files hold a head of its own.
// transformers then compares the two, and ties them only where they are equal.
namespace ringshard::hub {

// Returns true if the weight of the head is stored beside that of the embedding.
bool holds_head_and_embedding(const StoredModel& stored, const model::ParameterNames& names);

// Compares part `part` of `num_parts` of the two, as fp32. Both are stored. False where their
// shapes differ.
Expected<bool> is_head_the_embedding(const StoredModel& stored, const model::ParameterNames& names,
                                     int64_t part, int64_t num_parts);

}  // namespace ringshard::hub
