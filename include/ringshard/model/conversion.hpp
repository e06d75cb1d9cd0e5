#pragma once

#include <filesystem>
#include <optional>

#include "ringshard/base/exit_code.hpp"

// Folders of a model in a form that this program does not read, with the command that converts it.
namespace ringshard::model {

// A folder with adapter_config.json: transformers would load the base model and the adapter.
std::optional<Failure> refuse_adapter(const std::filesystem::path& folder);

// A folder without safetensors; names pytorch_model.bin where that is there.
Failure no_weights_in(const std::filesystem::path& folder);

}  // namespace ringshard::model
