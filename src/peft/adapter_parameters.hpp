#pragma once

#include <string>
#include <vector>

#include "adapter_targets.hpp"

namespace ringshard::peft {

// Returns the parameters that target_parameters names: matrices of linear layers, and those of all
// experts of a block, by PEFT's names and rules. Fails (78) where a name matches none, or something
// else. `tensors`: the names of all tensors of the model.
Expected<std::vector<model::LinearLayer>> find_parameters(
    const LoraConfig& config, const model::ModelSpec& spec,
    const std::vector<model::LinearLayer>& layers, const std::vector<std::string>& tensors);

}  // namespace ringshard::peft
