#pragma once

#include <filesystem>
#include <optional>

#include "ringshard/base/exit_code.hpp"

namespace ringshard::hub {

// Writes config.json, generation_config.json and model.safetensors (fp32) with random weights:
// matrices normal with the config's initializer_range, norms one, biases zero. Of a model's folder
// lies beside config_json, its tokenizer, is copied. Of a wrapped model the file holds the text
// model alone, under the wrapped model's names; transformers makes the other tensors when it loads
// the folder.
std::optional<Failure> write_random_model(const std::filesystem::path& config_json,
                                          const std::filesystem::path& folder, int64_t seed);

}  // namespace ringshard::hub
