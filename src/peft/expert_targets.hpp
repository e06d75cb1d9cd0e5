#pragma once

#include <optional>
#include <vector>

#include "adapter_targets.hpp"

namespace ringshard::peft {

// Replaces targets that PEFT 0.21 replaces in models whose experts transformers 5 holds as two
// tensors: all-linear stands for the router and the experts too, gate_proj, up_proj and down_proj
// (or w1, w3, w2) for the matrices of all experts, gate for the router. These become
// target_parameters, the adapter of gate and up with twice the rank and alpha. An expression
// becomes the names of the layers that it matches. Fails (78) where PEFT does, or adapts other
// layers than those that are named. For other models nothing changes.
std::optional<Failure> settle_expert_targets(const model::ModelSpec& spec, LoraConfig& config,
                                             const std::vector<model::LinearLayer>& layers);

}  // namespace ringshard::peft
